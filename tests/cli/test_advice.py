"""What to try after a failure, found in how it ended and in the last words."""

from __future__ import annotations

import pytest

from pliant.cli.explain.failure_hints import suggest_fix
from pliant.model.observed import PodExit


@pytest.mark.parametrize(
    ("code", "said", "helps"),
    [
        (1, "ModuleNotFoundError: No module named 'torch'", "this Python has no module `torch`;"),
        (1, "/usr/bin/python3: No module named torch.distributed", "this Python has no module `torch.distributed`"),
        (
            2,
            "python3: can't open file '/home/ada/trian.py': [Errno 2] No such file",
            "change it with --workspace or workingDir",
        ),
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
    found = suggest_fix(PodExit(code=code), said.splitlines())
    assert helps in found
    assert bool(helps) == bool(found)


def test_advice_by_the_reason() -> None:
    assert "increase the memory in resources.limits" in suggest_fix(PodExit(code=137, reason="OOMKilled"), ())
    message = 'exec: "pyton3": executable file not found in $PATH'
    assert "check the spelling" in suggest_fix(PodExit(code=128, reason="StartError", message=message), ())
    assert suggest_fix(None, ()) == ""
