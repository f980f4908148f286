"""TensorFlow: the cluster and one's own task in it, as JSON in TF_CONFIG."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache

from pliant.errors import InvalidSpec
from pliant.frameworks.casting import Cast, Directory
from pliant.model.framework import Framework, Rank, Role
from pliant.model.job import EndPolicy, Job, Port

CHIEF, MASTER, PS, EVALUATOR, WORKER = "chief", "master", "ps", "evaluator", "worker"
LONGEST = 120 * 1024
"""Bytes of the list of all addresses: Linux starts no program with a variable of 128 KiB."""

Cluster = dict[str, list[str] | dict[str, str]]
"""Addresses by role, in the order of their numbers, or each with its number."""


class TensorFlow(Framework):
    """One variable for everything; a job of one member has none, and trains alone.

    Option `dynamic_workers`: members are told only of those they talk to, so that workers may come and go.
    """

    name = "tensorflow"
    aliases = ("tf",)
    port = Port("tfjob-port", 2222)
    roles = (
        Role(name=CHIEF, completes=EndPolicy.RANK0),
        Role(name=MASTER, completes=EndPolicy.RANK0),
        Role(name=PS, aliases=("pserver", "server"), completes=EndPolicy.NONE),
        Role(name=EVALUATOR, completes=EndPolicy.NONE),
        Role(name=WORKER, may_resize=True),
    )

    def shared(self, job: Job) -> Mapping[str, str]:
        """Nothing: TF_CONFIG is another for every member; raises InvalidSpec if nobody could bear it."""
        cast = Cast(job, self)
        if not _is_dynamic(job) and (size := len(_whole(cast))) > LONGEST:
            problem = (
                f"the addresses of {cast.size()} members fill {size:,} bytes of TF_CONFIG, at most {LONGEST:,} fit"
            )
            raise InvalidSpec("spec", f"{problem}: use fewer members or a shorter name")
        return {}

    def environment(self, job: Job, rank: Rank, container: str) -> Mapping[str, str]:
        """Where the others are, and which task is one's own."""
        cast = Cast(job, self)
        role = cast.role(rank.group)
        number = cast.number(rank, role)
        if _is_dynamic(job):
            cluster = _json(_sparse(cast, role, number))
        elif cast.size() > 1:
            cluster = _whole(cast)
        else:
            return {}
        task = _json({"type": role, "index": number})
        return {"TF_CONFIG": f'{{"cluster":{cluster},"task":{task},"environment":"cloud"}}'}


def _is_dynamic(job: Job) -> bool:
    return bool(job.options.get("dynamic_workers"))


def _whole(cast: Cast) -> str:
    """Everybody but evaluators, who watch the others and take no part."""
    return _written(cast.directory(CHIEF, MASTER, PS, WORKER), _domain(cast))


@lru_cache(maxsize=64)
def _written(directory: Directory, domain: str) -> str:
    """Remembered, as every member is told of every other: that is the square of their number."""
    cluster: dict[str, list[str]] = {}
    for role, names, port in directory:
        if names:
            cluster.setdefault(role, []).extend(f"{name}{domain}:{port}" for name in names)
    return _json(cluster)


def _sparse(cast: Cast, role: str, number: int) -> Cluster:
    """Those a member talks to: servers only to themselves, all others to the servers and to who leads."""
    own = {str(number): _addresses(cast, role)[number]} if number < cast.size(role) else {}
    if role == PS:
        return {PS: own}
    lasting: Cluster = {each: [*_addresses(cast, each)] for each in (CHIEF, MASTER, PS) if cast.size(each)}
    return {**lasting, WORKER: own} if role == WORKER else lasting


def _addresses(cast: Cast, role: str) -> list[str]:
    return cast.endpoints(role, suffix=_domain(cast))


def _domain(cast: Cast) -> str:
    return f".{cast.job.key.namespace}.svc"


def _json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))
