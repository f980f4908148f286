"""Turns a Python script into a job: framework, launcher and replicas."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pliant.cli.input.job_names import MAX_JOB_NAME_LENGTH, check_job_name
from pliant.cli.input.manifests import Manifest
from pliant.cli.input.problems import input_error
from pliant.cli.script.imports import GENERIC, SCRIPT_FRAMEWORKS, ScriptImports, find_imports
from pliant.cli.starters import STARTERS_BY_FRAMEWORK

MAX_WORKERS = 10_000
ELASTIC_RESTARTS = 3
CONTAINER_NAME = "aitj-main"
GPU_RESOURCE = "nvidia.com/gpu"

DEEPSPEED_IMAGE = "deepspeed/deepspeed"
_TORCH_FRAMEWORKS = ("pytorch", "deepspeed")
TORCHRUN = ("-m", "torch.distributed.run")  # the program `torchrun` may belong to another Python
# torchrun forms a new group whenever a worker joins or leaves; workers without a framework are independent.
_FRAMEWORKS_THAT_JOIN = (GENERIC, "pytorch", "deepspeed")
_FRAMEWORKS_OF_FIXED_SIZE = ("mxnet", "mpi")


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptOptions:
    """What the user wants of a script."""

    script: Path
    arguments: tuple[str, ...] = ()
    workers: int | None = None
    gpus: int = 0
    """GPUs of each worker."""
    framework: str = ""
    """Empty: the framework that the script imports."""
    elastic: tuple[int, int] | None = None
    """The bounds between which the job may be scaled."""
    restarts: int | None = None
    """How often failed workers are restarted; by default not at all, unless the job is elastic."""
    name: str = ""
    """Empty: from the name of the file."""
    image: str = ""
    env: Mapping[str, str] = field(default_factory=dict)
    python: str = "python3"
    code_dir: str = ""
    """The directory of the script in the image; empty: programs find it at the path that the user wrote."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptJob:
    """The job of a script, and how its framework was found."""

    raw: dict[str, Any]
    framework: str
    reason: str
    imports: ScriptImports

    @property
    def manifests(self) -> list[Manifest]:
        """The objects as if a file contained them, so that they are checked and reported like those of files."""
        return [as_manifest(self.raw, str(self.imports.script))]

    @property
    def name(self) -> str:
        return str(self.raw["metadata"]["name"])


def as_manifest(raw: dict[str, Any], script: str) -> Manifest:
    from pliant.cli.input.yaml_reader import parse_documents
    from pliant.cli.output.manifest_yaml import dump_manifest

    [document] = parse_documents(f"the {raw['kind']} of {script}", dump_manifest(raw).encode())
    return Manifest(raw, document)


def build_script_job(options: ScriptOptions) -> ScriptJob:
    """Build the job that runs a script; raise InvalidInput for a script that Python cannot compile."""
    imports = find_imports(options.script)
    framework, reason = _choose_framework(options, imports)
    name = options.name or _job_name(options.script)
    check_job_name(name)
    elastic = _check_elastic(options, framework)
    workers = _check_workers(options, elastic)
    spec: dict[str, Any] = {} if framework == GENERIC else {"frameworkType": framework}
    spec |= {"cleanPodPolicy": "Running", "replicaSpecs": _replica_specs(options, framework, workers, elastic)}
    metadata: dict[str, Any] = {"name": name}
    if elastic and framework not in _FRAMEWORKS_THAT_JOIN:
        metadata["annotations"] = {"pliant/resize": "restart"}
    raw = {"apiVersion": "elasticdeeplearning.ai/v1", "kind": "AITrainingJob", "metadata": metadata, "spec": spec}
    return ScriptJob(raw=raw, framework=framework, reason=reason, imports=imports)


def _choose_framework(options: ScriptOptions, imports: ScriptImports) -> tuple[str, str]:
    if options.framework:
        if options.framework not in SCRIPT_FRAMEWORKS:
            fix = f"choose one of {', '.join(SCRIPT_FRAMEWORKS)}"
            raise input_error(f"`{options.framework}` is not a framework", fix=fix)
        return options.framework, "--framework"
    framework, module = imports.detect_framework()
    if framework:
        return framework, f"{options.script.name} imports {module}"
    return GENERIC, f"{options.script.name} imports no framework"


def _job_name(script: Path) -> str:
    """Return the name of the file as a job name: `Train_MNIST.py` becomes `train-mnist`."""
    name = re.sub(r"[^a-z0-9]+", "-", script.stem.lower()).strip("-")[:MAX_JOB_NAME_LENGTH].rstrip("-")
    return name if name[:1].isalpha() else f"job-{name}".rstrip("-")[:MAX_JOB_NAME_LENGTH]


def _check_elastic(options: ScriptOptions, framework: str) -> tuple[int, int] | None:
    if options.elastic is None:
        return None
    low, high = options.elastic
    if not 1 <= low <= high <= MAX_WORKERS:
        raise input_error(f"--elastic {low}..{high}: not a range of workers", fix="write MIN..MAX, for example 2..8")
    if framework in _FRAMEWORKS_OF_FIXED_SIZE:
        problem = f"--elastic: a job with framework {framework} has a fixed size"
        raise input_error(problem, fix="remove --elastic, or choose another framework with --framework")
    return options.elastic


def _check_workers(options: ScriptOptions, elastic: tuple[int, int] | None) -> int:
    workers = options.workers if options.workers is not None else elastic[0] if elastic else 1
    if not 1 <= workers <= MAX_WORKERS:
        raise input_error(f"--workers {workers}: not a number from 1 to {MAX_WORKERS}")
    if elastic and not elastic[0] <= workers <= elastic[1]:
        low, high = elastic
        raise input_error(f"--workers {workers}: outside of --elastic {low}..{high}", fix=f"write {low} to {high}")
    return workers


def _replica_specs(
    options: ScriptOptions, framework: str, workers: int, elastic: tuple[int, int] | None
) -> dict[str, Any]:
    policy = _restart_policy(options, framework, is_elastic=elastic is not None)
    command = [*_launcher(options, framework, is_elastic=elastic is not None), *_script_command(options)]
    env = _framework_env(options, framework, command, workers)
    worker: dict[str, Any] = {"replicas": workers}
    if elastic:
        worker |= {"minReplicas": elastic[0], "maxReplicas": elastic[1]}
    worker |= {**policy, "template": _template(options, framework, command, options.gpus, env)}
    if framework == "mpi":
        processes = str(workers * max(options.gpus, 1))
        launch = ["mpirun", "-np", processes, options.python, *_script_command(options)]
        launcher = {"replicas": 1, **policy, "template": _template(options, framework, launch)}
        # The workers serve the launcher until it ends.
        serve = _template(options, framework, ["/etc/mpi/worker"], options.gpus)
        return {"launcher": launcher, "worker": {**worker, "completePolicy": "None", "template": serve}}
    if framework == "mxnet" and workers > 1:
        server = {"replicas": 1, **policy, "template": _template(options, framework, command)}
        return {"scheduler": server, "server": dict(server), "worker": worker}
    return {"worker": worker}


def _restart_policy(options: ScriptOptions, framework: str, *, is_elastic: bool) -> dict[str, Any]:
    restarts = options.restarts if options.restarts is not None else ELASTIC_RESTARTS if is_elastic else 0
    if not restarts:
        return {"restartPolicy": "Never"}
    restarts_alone = framework == GENERIC or (is_elastic and framework in _FRAMEWORKS_THAT_JOIN)
    scope = "Pod" if restarts_alone else "All"
    return {"restartPolicy": "OnFailure", "restartScope": scope, "restartLimit": restarts}


def _launcher(options: ScriptOptions, framework: str, *, is_elastic: bool) -> list[str]:
    if framework in _TORCH_FRAMEWORKS and (is_elastic or options.gpus > 1):
        return [options.python, *TORCHRUN]
    return [options.python]


def _script_command(options: ScriptOptions) -> list[str]:
    path = f"{options.code_dir}/{options.script.name}" if options.code_dir else str(options.script)
    if path.startswith("-"):
        path = f"./{path}"  # else Python takes the name for an option
    return [_escape_references(word) for word in (path, *options.arguments)]


def _escape_references(word: str) -> str:
    """Return the word as Kubernetes must read it to pass it on unchanged: it expands `$(NAME)`, and `$$` to `$`."""
    return re.sub(r"\$(?=[$(])", "$$", word)


def _framework_env(options: ScriptOptions, framework: str, command: list[str], workers: int) -> dict[str, str]:
    """Return the variables that depend on the launcher and on the devices of a worker."""
    if framework in _TORCH_FRAMEWORKS:
        if TORCHRUN[-1] in command:
            # By default, torchrun starts a process for each CPU of a machine without GPUs.
            return {"PET_NPROC_PER_NODE": str(max(options.gpus, 1))}
        # Libraries such as Accelerate take part only in a group with a local rank.
        return {"LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1"} if workers > 1 else {}
    if framework == "paddle" and not options.gpus:
        return {"PADDLE_DISTRI_BACKEND": "gloo"}
    return {}


def _template(
    options: ScriptOptions, framework: str, command: list[str], gpus: int = 0, env: Mapping[str, str] | None = None
) -> dict[str, Any]:
    container: dict[str, Any] = {"name": CONTAINER_NAME, "image": options.image or default_image(framework)}
    container["command"] = command
    variables = {**(env or {}), **options.env}
    if variables:
        container["env"] = [{"name": name, "value": value} for name, value in variables.items()]
    if gpus:
        container["resources"] = {"limits": {GPU_RESOURCE: gpus}}
    return {"spec": {"containers": [container]}}


def default_image(framework: str) -> str:
    """Return an image that has the framework; local clusters do not use it."""
    starter = STARTERS_BY_FRAMEWORK.get(framework)
    return starter.image if starter else DEEPSPEED_IMAGE
