"""Environment variables, ports and resources of a PaddleJob that follow from its spec alone."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from pliant.errors import InvalidSpec
from pliant.frontends.paddle.types import PaddleJobSpec, PaddleRoleSpec, PaddleTrainerSpec
from pliant.frontends.spec.decoding import abbreviate_json

GPU_RESOURCE, LEGACY_GPU_RESOURCE = "nvidia.com/gpu", "alpha.kubernetes.io/nvidia-gpu"
_QUANTITY_PATTERN = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,9})?)(m?)")


def require_trainer(spec: PaddleJobSpec) -> PaddleTrainerSpec:
    """Return the trainer spec; raise InvalidSpec if it is missing."""
    if spec.trainer is None:
        raise InvalidSpec("spec.trainer", "is required: the job completes with its trainers")
    return spec.trainer


def workspace_path(spec: PaddleJobSpec) -> str:
    """Return the directory of the program; empty if it is not set."""
    return require_trainer(spec).workspace or spec.trainer_package


def container_resources(role: PaddleRoleSpec) -> dict[str, dict[str, Any]]:
    """Return the container resources of a role, with GPUs as limits under their current resource name."""
    limits = _with_current_gpu_name(role.resources.limits)
    requests = _with_current_gpu_name(role.resources.requests)
    gpus = limits.get(GPU_RESOURCE) or requests.get(GPU_RESOURCE)
    if not gpus and isinstance(role, PaddleTrainerSpec) and role.trainer_gpu:
        gpus = str(role.trainer_gpu)
    if gpus:
        limits[GPU_RESOURCE] = gpus
        requests.pop(GPU_RESOURCE, None)
    return {name: each for name, each in (("limits", limits), ("requests", requests)) if each}


def static_environment(spec: PaddleJobSpec, job_name: str) -> dict[str, str]:
    """Return the variables that depend neither on sizes nor on peers."""
    trainer = require_trainer(spec)
    gpus = round_up_quantity(container_resources(trainer).get("limits", {}).get(GPU_RESOURCE))
    # The program starts one thread per core.
    cores = round_up_quantity(trainer.resources.requests.get("cpu") or trainer.resources.limits.get("cpu")) or 1
    workspace = {"TRAINER_PACKAGE": workspace_path(spec)} if workspace_path(spec) else {}
    passes = next((each for each in (trainer.passes, spec.passes) if each is not None), 1)
    return {
        "PADDLE_JOB_NAME": job_name,
        "ENTRY": trainer.entrypoint.strip(),
        "TOPOLOGY": trainer.entrypoint.strip(),
        **workspace,
        "PADDLE_INIT_PORT": str(first_server_port(spec)),
        "PADDLE_INIT_PORTS_NUM": str(_one_if_none(spec.ports_num)),
        "PADDLE_INIT_PORTS_NUM_FOR_SPARSE": str(_one_if_none(spec.ports_num_for_sparse)),
        "PADDLE_INIT_TRAINER_COUNT": str(gpus or cores),
        "PADDLE_INIT_NUM_PASSES": str(passes or 1),
        "PADDLE_INIT_USE_GPU": "1" if gpus else "0",
        "LD_LIBRARY_PATH": "/usr/local/cuda/lib64",
    }


def user_environment(envs: Any, path: str) -> list[dict[str, Any]]:
    """Return the variables in `envs`, which is a map of values or a list as in pods."""
    if not envs:
        return []
    if isinstance(envs, Mapping):
        return [{"name": str(name), "value": _variable_text(value)} for name, value in envs.items()]
    if not isinstance(envs, list):
        raise InvalidSpec(path, f"must be a map of names to values, got {abbreviate_json(envs)}")
    for index, each in enumerate(envs):
        if not isinstance(each, Mapping) or not isinstance(each.get("name"), str):
            raise InvalidSpec(f"{path}[{index}]", f"must have a name, got {abbreviate_json(each)}")
    return [
        dict(each) if "valueFrom" in each else {**each, "value": _variable_text(each.get("value"))} for each in envs
    ]


def first_server_port(spec: PaddleJobSpec) -> int:
    """Return the first port of parameter servers."""
    return spec.port or 7164


def port_numbers(spec: PaddleJobSpec, *, is_trainer: bool) -> list[int]:
    """Return the ports of a replica, those for dense parameters first; raise InvalidSpec if they exceed 65535."""
    if is_trainer and spec.trainer_port:
        first, number, path = spec.trainer_port, _one_if_none(spec.trainer_ports_num), "spec.trainer_ports_num"
    else:
        first, path = first_server_port(spec), "spec.ports_num"
        number = _one_if_none(spec.ports_num) + _one_if_none(spec.ports_num_for_sparse)
    if first + number > 65536:
        raise InvalidSpec(path, f"{number} ports from {first} on exceed 65535: choose a lower first port")
    return list(range(first, first + number))


def round_up_quantity(quantity: Any) -> int:
    """Return a quantity in whole units, rounded up; 0 if it is invalid, which the API server reports."""
    match = _QUANTITY_PATTERN.fullmatch(str(quantity).strip()) if isinstance(quantity, str | int | float) else None
    if match is None:
        return 0
    return math.ceil(float(match[1]) / (1000 if match[2] else 1))


def _with_current_gpu_name(quantities: Mapping[str, Any]) -> dict[str, Any]:
    """Return the quantities with the current resource name of GPUs, and without zero GPUs."""
    renamed = {
        GPU_RESOURCE if name == LEGACY_GPU_RESOURCE else name: quantity
        for name, quantity in quantities.items()
        if quantity is not None
    }
    return {name: each for name, each in renamed.items() if name != GPU_RESOURCE or round_up_quantity(each)}


def _one_if_none(number: int | None) -> int:
    return 1 if number is None else number


def _variable_text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else value if isinstance(value, str) else abbreviate_json(value)
