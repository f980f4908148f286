"""`pliant run train.py`: a script becomes a job, and mistakes are answered with what to type."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pliant.cli.cluster.apply import kind_registry_for_manifests
from pliant.cli.input.manifest_checks import check_runnable_locally
from pliant.cli.input.problems import InvalidInput
from pliant.cli.main import main
from pliant.cli.script.code_shipping import MAX_CODE_BYTES, build_code_config_map, read_code, with_code_mounted
from pliant.cli.script.imports import SCRIPT_FRAMEWORKS, find_imports
from pliant.cli.script.script_job import ScriptJob, ScriptOptions, build_script_job
from pliant.embedded.kubelet.environment.variables import build_command_line
from tests.cli.ordinary_user import OrdinaryUser


def write(folder: Path, **files: str) -> Path:
    """Write modules, with `-` for each `/` in their names; return the script `train.py`."""
    for name, text in files.items():
        path = folder / f"{name.replace('-', '/')}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder / "train.py"


def job_of(folder: Path, text: str = "", **options: Any) -> ScriptJob:
    return build_script_job(ScriptOptions(script=write(folder, train=text), **options))


def containers(job: ScriptJob) -> dict[str, dict[str, Any]]:
    groups = job.raw["spec"]["replicaSpecs"]
    return {name: group["template"]["spec"]["containers"][0] for name, group in groups.items()}


@pytest.mark.parametrize(
    ("text", "framework"),
    [
        ("import torch.nn as nn", "pytorch"),
        ("from lightning import Trainer", "pytorch"),
        ("import torch, deepspeed", "deepspeed"),
        ("import torch\nfrom mpi4py import MPI", "mpi"),
        ("def f():\n    import tensorflow as tf", "tensorflow"),
        ("try:\n    import jax\nexcept ImportError:\n    pass", "jax"),
        ("import paddle", "paddle"),
        ("from mxnet import gluon", "mxnet"),
        ("import lightgbm", "xgboost"),
        ("import keras, torch", "pytorch"),
        ("import numpy", "generic"),
        ("import torchy", "generic"),
    ],
)
def test_the_framework_is_that_of_the_imports(tmp_path: Path, text: str, framework: str) -> None:
    assert job_of(tmp_path, text).framework == framework


def test_a_framework_that_only_a_local_module_imports_counts(tmp_path: Path) -> None:
    write(tmp_path, model="import jax")
    job = job_of(tmp_path, "import model")
    assert (job.framework, job.reason) == ("jax", "train.py imports jax")


def test_local_modules_are_found_through_packages_and_each_other(tmp_path: Path) -> None:
    modules = {
        "train": "import data\nfrom lib.nets import resnet\nimport os.path\nimport lib2.deep.x",
        "data": "import train",
        "lib-__init__": "",
        "lib-nets-__init__": "from . import blocks\nfrom ..shared import size",
        "lib-nets-resnet": "from .blocks import Block",
        "lib-nets-blocks": "",
        "lib-shared": "",
        "lib2-deep-x": "",
        "lib-unused": "",
    }
    script = write(tmp_path, **modules)
    found = [path.relative_to(tmp_path).as_posix() for path in find_imports(script).local_files]
    assert found == [
        "data.py",
        "lib/__init__.py",
        "lib/nets/__init__.py",
        "lib/nets/blocks.py",
        "lib/nets/resnet.py",
        "lib/shared.py",
        "lib2/deep/x.py",
    ]


def test_modules_of_a_linked_script_are_those_beside_its_target(tmp_path: Path) -> None:
    write(tmp_path / "code", **{"train": "import lib.data", "lib-data": "from . import more", "lib-more": ""})
    link = tmp_path / "link.py"
    link.symlink_to("code/train.py")
    assert sorted(read_code(find_imports(link))) == ["lib/data.py", "lib/more.py", "link.py"]


@pytest.mark.parametrize("framework", SCRIPT_FRAMEWORKS)
@pytest.mark.parametrize("workers", [1, 3])
def test_the_job_of_every_framework_can_be_run(tmp_path: Path, framework: str, workers: int) -> None:
    job = job_of(tmp_path, framework=framework, workers=workers, gpus=2, arguments=("--lr", "0.1", "- {a: b}"))
    check_runnable_locally(job.manifests, kind_registry_for_manifests(job.manifests), "default")
    assert job.raw["spec"]["replicaSpecs"]["worker"]["replicas"] == workers
    assert containers(job)["worker"]["resources"]["limits"] == {"nvidia.com/gpu": 2}
    programs = [container["command"] for container in containers(job).values()]
    assert any(command[-3:] == ["--lr", "0.1", "- {a: b}"] for command in programs)


def test_names_and_arguments_reach_the_program_as_they_were_typed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("-$(HOME).py").write_text("")
    arguments = ("$(HOME)", "$$", "$", "$$$(x)", "a$b", "")
    job = build_script_job(ScriptOptions(script=Path("-$(HOME).py"), arguments=arguments))
    command = build_command_line(containers(job)["worker"], {"HOME": "/root"})
    assert command == ["python3", "./-$(HOME).py", *arguments]


def test_a_worker_with_several_gpus_and_an_elastic_one_are_started_by_torchrun(tmp_path: Path) -> None:
    torchrun = ["python3", "-m", "torch.distributed.run"]
    assert containers(job_of(tmp_path, "import torch", workers=4))["worker"]["command"][:2] == [
        "python3",
        str(tmp_path / "train.py"),
    ]
    several = containers(job_of(tmp_path, "import torch", gpus=8))["worker"]
    assert several["command"][:3] == torchrun
    assert several["env"] == [{"name": "PET_NPROC_PER_NODE", "value": "8"}]
    elastic = containers(job_of(tmp_path, "import torch", elastic=(1, 4)))["worker"]
    assert elastic["command"][:3] == torchrun
    assert elastic["env"] == [{"name": "PET_NPROC_PER_NODE", "value": "1"}]


@pytest.mark.parametrize(
    ("framework", "resize", "scope"), [("pytorch", None, "Pod"), ("generic", None, "Pod"), ("jax", "restart", "All")]
)
def test_an_elastic_job_has_bounds_and_restarts(tmp_path: Path, framework: str, resize: str | None, scope: str) -> None:
    raw = job_of(tmp_path, framework=framework, elastic=(2, 8)).raw
    worker = raw["spec"]["replicaSpecs"]["worker"]
    assert [worker[field] for field in ("replicas", "minReplicas", "maxReplicas")] == [2, 2, 8]
    assert (worker["restartScope"], worker["restartLimit"]) == (scope, 3)
    assert raw["metadata"].get("annotations", {}).get("pliant/resize") == resize


@pytest.mark.parametrize(
    ("file", "name"),
    [("Train_MNIST.py", "train-mnist"), ("1.py", "job-1"), ("ü.py", "job"), (f"{'a' * 60}.py", "a" * 40)],
)
def test_the_job_is_named_like_the_file(tmp_path: Path, file: str, name: str) -> None:
    (tmp_path / file).write_text("")
    assert build_script_job(ScriptOptions(script=tmp_path / file)).name == name


def test_code_travels_in_a_config_map_at_its_paths(tmp_path: Path) -> None:
    job = job_of(tmp_path, "import a_b, pkg.a_b", framework="mpi", workers=2, code_dir="/pliant/code")
    write(tmp_path, **{"a_b": "1", "pkg-a_b": "2"})
    (tmp_path / "pkg" / "a_b.py").write_bytes(b"# -*- coding: latin-1 -*-\n# \xe9")
    contents = read_code(find_imports(tmp_path / "train.py"))
    config_map = build_code_config_map("code", contents)
    raw = with_code_mounted(job.raw, "code", contents)
    for group in raw["spec"]["replicaSpecs"].values():
        [volume] = group["template"]["spec"]["volumes"]
        placed = {item["path"]: item["key"] for item in volume["configMap"]["items"]}
        assert placed.keys() == {"train.py", "a_b.py", "pkg/a_b.py"}
        assert config_map["data"][placed["a_b.py"]] == "1"
        assert placed["pkg/a_b.py"] in config_map["binaryData"]
    assert "volumes" not in job.raw["spec"]["replicaSpecs"]["worker"]["template"]["spec"]


def test_code_that_is_too_large_names_the_largest_file(tmp_path: Path) -> None:
    write(tmp_path, tables=f"x = '{'a' * MAX_CODE_BYTES}'")
    with pytest.raises(InvalidInput) as refused:
        read_code(find_imports(write(tmp_path, train="import tables")))
    assert "the largest is tables.py (900 KiB)" in refused.value.problems[0].fix


def complaint(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    with pytest.raises(SystemExit) as end:
        main(["run", *words])
    captured = capsys.readouterr()
    assert (end.value.code, captured.out) == (2, "")
    assert "Traceback" not in captured.err
    return captured.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("bad.py",), "bad.py:2:7: error: not valid Python"),
        (("none.py",), "none.py: error: cannot read: No such file"),
        (("train.py", "--wokers", "2"), "did you mean `--workers`?"),
        (("torch.py",), "rename the file, for example to train_torch.py"),
        (("notes.ipynb",), "jupyter nbconvert --to script notes.ipynb && pliant run notes.py"),
        (("train.py", "--lr", "0.1", "--", "x y"), "follow `--`: pliant run train.py -- --lr 0.1 'x y'"),
        (("job.yaml", "--lr", "0.1"), "unrecognized arguments: --lr 0.1\n"),
        (("train.py", "data.csv"), "pliant run train.py -- ARGUMENTS"),
        (("job.yaml", "--workers", "2"), "use --set spec.replicaSpecs.worker.replicas=N"),
        (("job.yaml", "--", "x"), "write them into the command of the template"),
        (("train.py", "--elastic", "4..2"), "write MIN..MAX"),
        (("train.py", "--elastic", "4"), "write MIN..MAX"),
        (("train.py", "--elastic", "2..4", "--workers", "5"), "write 2 to 4"),
        (("train.py", "--elastic", "2..4", "--framework", "mpi"), "has a fixed size"),
        (("train.py", "--name", "A"), "`A` is not a valid name"),
        (("train.py", "--context", "prod"), "--image is required"),
        (("job.yaml", "--context", "prod"), "pliant submit job.yaml --follow"),
        (("train.py", "--cluster", "c", "--logs-dir", "logs"), "--logs-dir does not apply to a running cluster"),
        (("train.py", "--context", "c", "--nodes", "2"), "--nodes does not apply to a running cluster"),
        (("--dry-run", "train.py"), "write --dry-run after FILE, or --dry-run=client"),
        (("https://example.org/job.yaml",), "curl -fL https://example.org/job.yaml | pliant run -"),
        (("chart",), "helm template chart | pliant run -"),
        (("chart-1.tgz",), "helm template chart-1.tgz | pliant run -"),
        (("kustom",), "kubectl kustomize kustom | pliant run -"),
        (("code",), "pliant run code/main.py"),
        (("package",), "pliant run package/__main__.py"),
        (("-m", "package"), "modules cannot be run by name; write the path of its file"),
        (("script",), "a Python script needs a name that ends with .py"),
        (("chart/templates/job.yaml",), "render the template first: helm template CHART"),
        (("batch.yaml",), "run its program as a training job: pliant run train.py --workers 3"),
    ],
)
def test_mistakes_are_answered_with_the_next_command(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: tuple[str, ...],
    said: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    write(
        tmp_path,
        **{
            "train": "",
            "bad": "import os\ndef f(:",
            "torch": "import torch",
            "code-main": "",
            "package-__init__": "",
            "package-__main__": "",
        },
    )
    (tmp_path / "script").write_text("import torch")
    for folder in ("chart/templates", "kustom"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "chart" / "Chart.yaml").write_text("name: chart")
    (tmp_path / "chart" / "templates" / "job.yaml").write_text("kind: {{ .Values.kind }}")
    (tmp_path / "kustom" / "kustomization.yaml").write_text("resources: []")
    pod = {"containers": [{"name": "main", "image": "x", "command": ["python3", "train.py"]}]}
    batch = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "a"}, "spec": {}}
    batch["spec"] = {"parallelism": 3, "template": {"spec": pod}}
    (tmp_path / "batch.yaml").write_text(json.dumps(batch))
    assert said in complaint(capsys, *words)


def test_a_script_that_is_submitted_like_a_file_is_answered_with_run(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["submit", "train.py"])
    assert "fix: pliant run train.py; on a running cluster: pliant run train.py --cluster" in capsys.readouterr().err


def test_a_dry_run_prints_a_job_that_can_be_kept(user: OrdinaryUser) -> None:
    user.write("train.py", "import sys\nprint('worker', sys.argv[1:])\n")
    printed = user.call("run", "train.py", "--workers", "2", "--dry-run", "--", "--lr", "0.1")
    assert printed.code == 0
    user.write("job.yaml", printed.out)
    assert user.call("run", "job.yaml", "--dry-run").out == printed.out
    assert json.loads(user.call("run", "job.yaml", "--dry-run", "-o", "json").out)["kind"] == "AITrainingJob"


def test_a_script_runs_on_several_workers_with_its_arguments_and_modules(user: OrdinaryUser) -> None:
    (user.home / "lib").mkdir()
    user.write("lib/shared.py", "def greet(name):\n    print('hello', name, flush=True)\n")
    user.write("lib/train.py", "import os, sys, shared\nshared.greet(sys.argv[1])\nopen(sys.argv[2]).close()\n")
    user.write("data.txt", "")  # in the current directory, not in that of the script
    done = user.run("run", "lib/train.py", "--workers", "2", "--", "you", "data.txt")
    assert done.code == 0, done.err
    assert done.out.count("│ hello you") == 2
    assert "train: framework generic (train.py imports no framework)" in done.err


def test_a_job_on_a_cluster_outlives_the_timeout_of_its_run_and_can_be_replaced(cluster: OrdinaryUser) -> None:
    cluster.write("endless.py", "import signal\nprint('waiting', flush=True)\nsignal.pause()\n")
    words = ("run", "endless.py", "--cluster", "default", "--timeout", "2s")
    for command in (words, (*words, "--replace")):
        done = cluster.run(*command)
        assert (done.code, done.err.count("not ended after 2.0s (--timeout)")) == (124, 1), done.err
    assert "--replace" in cluster.run(*words).err
    assert cluster.call("delete", "endless", "--wait").code == 0


def test_a_script_runs_on_a_running_cluster_where_it_is_or_with_its_code(cluster: OrdinaryUser) -> None:
    folder = cluster.home / "scripted"
    (folder / "lib").mkdir(parents=True)
    cluster.write("scripted/lib/part.py", "NAME = 'part'\n")
    cluster.write("scripted/whole.py", "import os, lib.part\nprint(lib.part.NAME, 'from', __file__, flush=True)\n")
    script = str(folder / "whole.py")
    for _ in range(2):  # the finished job is replaced
        here = cluster.run("run", script, "--cluster", "default")
        assert here.code == 0, here.err
        assert f"│ part from {script}" in here.out
    [known] = json.loads(cluster.call("status", "-o", "json").out)
    there = ("--kubeconfig", known["kubeconfig"], "--image", "any")
    taken = cluster.run("run", script, *there)
    assert (taken.code, "use --replace" in taken.err) == (2, True)
    sent = cluster.run("run", script, "--name", "sent", "--workers", "2", *there)
    assert sent.code == 0, sent.err
    assert sent.out.count("│ part from /pliant/code/whole.py") == 2
    assert cluster.call("delete", "sent", "whole", "--wait").code == 0
