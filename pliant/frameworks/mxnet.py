"""MXNet and BytePS: a scheduler, servers and workers, told of each other by DMLC_*."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache

from pliant.frameworks.casting import Cast, Directory, mapping_in
from pliant.model.framework import Framework, Rank, Role
from pliant.model.job import EndPolicy, Group, Job, Port

SCHEDULER, SERVER, WORKER = "scheduler", "server", "worker"
TUNERS = ("tunertracker", "tunerserver", "tuner")
LONGEST = 120 * 1024
"""Bytes of MX_CONFIG, which is left out if it is longer: Linux starts no program with a variable of 128 KiB."""
KEY = "tuner-server-key"
"""The annotation of a template that tells a tuner which server is meant."""


class MXNet(Framework):
    """What ps-lite reads, and MX_CONFIG for scripts that want to see the whole cluster."""

    name = "mxnet"
    aliases = ("mx", "byteps")
    port = Port("mxjob-port", 9091)
    roles = (
        Role(name=SCHEDULER, completes=EndPolicy.NONE),
        Role(name=SERVER, aliases=("ps", "pserver"), completes=EndPolicy.NONE),
        *(Role(name=name, completes=EndPolicy.NONE) for name in TUNERS),
        Role(name=WORKER),
    )

    def shared(self, job: Job) -> Mapping[str, str]:
        """Where the scheduler is, and how many there are."""
        cast = Cast(job, self)
        scheduler = cast.group(SCHEDULER)
        if scheduler is None:
            return {}
        return {
            "DMLC_PS_ROOT_URI": cast.host(scheduler),
            "DMLC_PS_ROOT_PORT": str(cast.port(scheduler)),
            "DMLC_NUM_SERVER": str(cast.size(SERVER)),
            "DMLC_NUM_WORKER": str(cast.size(WORKER)),
            # The scheduler then listens on all its addresses, and need not be able to look up its own name.
            "DMLC_USE_KUBERNETES": "1",
            "PYTHONUNBUFFERED": "1",
        }

    def environment(self, job: Job, rank: Rank, container: str) -> Mapping[str, str]:
        """One's part in it."""
        cast = Cast(job, self)
        role = cast.role(rank.group)
        number = cast.number(rank, role)
        config = _config(cast, role, number)
        found = {"MX_CONFIG": config} if len(config) <= LONGEST else {}
        if role not in TUNERS:
            found["DMLC_ROLE"] = role
        if role == WORKER:
            found["DMLC_WORKER_ID"] = str(number)
        return found


def _config(cast: Cast, role: str, number: int) -> str:
    labels: dict[str, str] = {}
    for part, group in cast.parts:
        labels.setdefault(part.name, _key(group))
    rest = _json({"labels": labels, "task": {"type": role, "index": number}})
    return f'{{"cluster":{_written(cast.directory())},{rest[1:]}'


@lru_cache(maxsize=64)
def _written(directory: Directory) -> str:
    """Remembered, as every member is told of every other: that is the square of their number."""
    cluster: dict[str, list[dict[str, str | int]]] = {}
    for role, names, port in directory:
        cluster.setdefault(role, []).extend({"url": name, "port": port} for name in names)
    return _json(cluster)


def _json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


def _key(group: Group) -> str:
    return str(mapping_in(group.template, "metadata", "annotations").get(KEY) or "")
