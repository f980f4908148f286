"""The variables that images and programs for this kind read, as far as the resource alone tells them."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from pliant.errors import InvalidSpec
from pliant.frontends.paddle.types import PaddleJobSpec, RoleSpec, TrainerSpec
from pliant.frontends.reading import quoted

GPU, OLD_GPU = "nvidia.com/gpu", "alpha.kubernetes.io/nvidia-gpu"
_AMOUNT = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,9})?)(m?)")


def trainer_of(spec: PaddleJobSpec) -> TrainerSpec:
    """The trainers; raises InvalidSpec if there are none to speak of."""
    if spec.trainer is None:
        raise InvalidSpec("spec.trainer", "is required: the job is done when its trainers are")
    return spec.trainer


def workspace_of(spec: PaddleJobSpec) -> str:
    """The folder of the program; empty if nobody says."""
    return trainer_of(spec).workspace or spec.trainer_package


def resources_of(role: RoleSpec) -> dict[str, dict[str, Any]]:
    """What members ask for, as pods say it today: one word for GPUs, and as many asked for as may be used."""
    found = {"limits": _modern(role.resources.limits), "requests": _modern(role.resources.requests)}
    gpus = found["limits"].get(GPU) or found["requests"].get(GPU)
    if not gpus and isinstance(role, TrainerSpec) and role.trainer_gpu:
        gpus = str(role.trainer_gpu)
    if gpus:
        found["limits"][GPU] = gpus
        found["requests"].pop(GPU, None)
    return {name: amounts for name, amounts in found.items() if amounts}


def fixed_variables(spec: PaddleJobSpec, job: str) -> dict[str, str]:
    """What does not depend on sizes or peers."""
    trainer = trainer_of(spec)
    gpus = whole(resources_of(trainer).get("limits", {}).get(GPU))
    workspace = {"TRAINER_PACKAGE": workspace_of(spec)} if workspace_of(spec) else {}
    passes = next((each for each in (trainer.passes, spec.passes) if each is not None), 1)
    return {
        "PADDLE_JOB_NAME": job,
        "ENTRY": trainer.entrypoint.strip(),
        "TOPOLOGY": trainer.entrypoint.strip(),
        **workspace,
        "PADDLE_INIT_PORT": str(first_port(spec)),
        "PADDLE_INIT_PORTS_NUM": str(_given(spec.ports_num)),
        "PADDLE_INIT_PORTS_NUM_FOR_SPARSE": str(_given(spec.ports_num_for_sparse)),
        "PADDLE_INIT_TRAINER_COUNT": str(gpus or _cores(trainer)),
        "PADDLE_INIT_NUM_PASSES": str(passes or 1),
        "PADDLE_INIT_USE_GPU": "1" if gpus else "0",
        "LD_LIBRARY_PATH": "/usr/local/cuda/lib64",
    }


def own_variables(envs: Any, path: str) -> list[dict[str, Any]]:
    """What an author adds: a map of values, or a list as pods have it."""
    if not envs:
        return []
    if isinstance(envs, Mapping):
        return [{"name": str(name), "value": _text(value)} for name, value in envs.items()]
    if not isinstance(envs, list):
        raise InvalidSpec(path, f"must map names to values, got {quoted(envs)}")
    for index, each in enumerate(envs):
        if not isinstance(each, Mapping) or not isinstance(each.get("name"), str):
            raise InvalidSpec(f"{path}[{index}]", f"must have a name, got {quoted(each)}")
    return [dict(each) if "valueFrom" in each else {**each, "value": _text(each.get("value"))} for each in envs]


def first_port(spec: PaddleJobSpec) -> int:
    """Where servers listen."""
    return spec.port or 7164


def ports_of(spec: PaddleJobSpec, *, is_trainer: bool) -> list[int]:
    """All ports of a member, those for dense parameters first; raises InvalidSpec if there are not so many."""
    if is_trainer and spec.trainer_port:
        first, number, path = spec.trainer_port, _given(spec.trainer_ports_num), "spec.trainer_ports_num"
    else:
        first, path = first_port(spec), "spec.ports_num"
        number = _given(spec.ports_num) + _given(spec.ports_num_for_sparse)
    if first + number > 65536:
        raise InvalidSpec(path, f"{number} ports from {first} on are more than there are: begin lower")
    return list(range(first, first + number))


def whole(amount: Any) -> int:
    """An amount in whole units, rounded up; 0 for what is no amount: the API server will say so."""
    found = _AMOUNT.fullmatch(str(amount).strip()) if isinstance(amount, str | int | float) else None
    if found is None:
        return 0
    return math.ceil(float(found[1]) / (1000 if found[2] else 1))


def _cores(trainer: TrainerSpec) -> int:
    """Whole cores that each trainer asks for: a program starts as many threads, so at least one."""
    asked = trainer.resources.requests.get("cpu") or trainer.resources.limits.get("cpu")
    return whole(asked) or 1


def _modern(amounts: Mapping[str, Any]) -> dict[str, Any]:
    """Amounts with today's name for GPUs; none of them is the same as not asking for any."""
    named = {GPU if name == OLD_GPU else name: amount for name, amount in amounts.items() if amount is not None}
    return {name: each for name, each in named.items() if name != GPU or whole(each)}


def _given(number: int | None) -> int:
    return 1 if number is None else number


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else value if isinstance(value, str) else quoted(value)
