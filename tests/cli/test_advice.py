"""What to try after a failure, found in how it ended and in the last words."""

from __future__ import annotations

from pathlib import Path

import pytest

from pliant.cli.explain.failure_hints import LocalPrograms, explain_start_failure, suggest_fix
from pliant.kube.objects import Node, ObjectMeta
from pliant.model.observed import PodExit
from pliant.model.state import StartFailure

HERE = LocalPrograms("/nowhere", "/home/ada/jobs")


@pytest.mark.parametrize(
    ("code", "said", "helps"),
    [
        (
            1,
            "ModuleNotFoundError: No module named 'torch'",
            "this Python has no module `torch`; local pods use the programs on your PATH",
        ),
        (1, "/usr/bin/python3: No module named torch.distributed", "this Python has no module `torch.distributed`"),
        (
            2,
            "python3: can't open file '/tmp/trian.py': [Errno 2] No such file",
            "change it with --workspace or workingDir",
        ),
        (2, "python3: can't open file '/home/no-one/train.py': [Errno 2] No such file", "--mount DIR:/home/no-one of"),
        (1, "sh: 2: cd: can't cd to /home/no-one/", "--mount DIR:/home/no-one of"),
        (1, "bash: line 2: cd: /home/no-one: No such file or directory", "--mount DIR:/home/no-one of"),
        (127, "sh: 1: pyhton3: not found", "local pods use the programs on your PATH"),
        (1, "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate", "a smaller batch, or more GPUs"),
        (1, "ConnectionRefusedError: [Errno 111] Connection refused", "replicas start in any order"),
        (1, "OSError: [Errno 98] Address already in use", "listen on $POD_IP"),
        (137, "step 3", "the kernel killed it for lack of memory"),
        (139, "", "an invalid memory access"),
        (3, "no data", ""),
        (1, "", ""),
    ],
)
def test_advice_by_last_words_and_exit_code(code: int, said: str, helps: str) -> None:
    found = suggest_fix(PodExit(code=code), said.splitlines(), HERE)
    assert helps in found
    assert bool(helps) == bool(found)


def test_advice_by_the_reason() -> None:
    assert "increase the memory in resources.limits" in suggest_fix(PodExit(code=137, reason="OOMKilled"), (), HERE)
    message = 'exec: "pyton3": executable file not found in $PATH'
    assert "check the spelling" in suggest_fix(PodExit(code=128, reason="StartError", message=message), (), HERE)
    assert suggest_fix(None, (), HERE) == ""


def test_advice_names_the_python_and_the_directory_of_local_pods_and_the_image_of_others(tmp_path: Path) -> None:
    python = tmp_path / "python3"
    python.touch(mode=0o755)
    annotations = {"pliant/path": str(tmp_path), "pliant/workspace": str(tmp_path)}
    node = Node(metadata=ObjectMeta(name="n", annotations=annotations))
    local = LocalPrograms.of_nodes([node])
    module, file = ["No module named 'torch'"], [f"python3: can't open file '{tmp_path}/a.py': [Errno 2] No such file"]
    assert suggest_fix(None, module, local).startswith(f"{python} has no module `torch`;")
    assert f"{python} -m pip install torch, start Pliant in" in suggest_fix(None, module, local)
    assert "pip install scikit-learn," in suggest_fix(None, ["No module named 'sklearn.svm'"], local)
    assert "--mount DIR:/PATH" in suggest_fix(None, module, local)
    assert suggest_fix(None, file, local).startswith(f"programs start in {tmp_path}; change it with --workspace")
    elsewhere = LocalPrograms.of_nodes([Node(metadata=ObjectMeta(name="n"))])
    assert suggest_fix(None, module, elsewhere) == (
        "the Python of the image has no module `torch`: install `torch` in the image"
    )
    assert "the file must be in the image" in suggest_fix(None, file, elsewhere)


def test_a_program_that_cannot_start_is_explained_with_its_fix() -> None:
    failure = StartFailure(cause="sh: 1: pyhton3: not found", count=2, attempt=2)
    told = explain_start_failure("worker", failure, HERE)
    assert told.startswith(
        "worker ended 2 times within 2s of its start: sh: 1: pyhton3: not found; suggestion: check the spelling"
    )
