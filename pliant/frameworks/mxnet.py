"""MXNet and BytePS: a scheduler, servers and workers, told of each other by DMLC_*."""

from __future__ import annotations

import json
from collections.abc import Mapping

from pliant.frameworks.casting import Cast
from pliant.model.framework import Framework, Rank, Role
from pliant.model.job import EndPolicy, Group, Job, Port

SCHEDULER, SERVER, WORKER = "scheduler", "server", "worker"
TUNERS = ("tunertracker", "tunerserver", "tuner")
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
        found = {"MX_CONFIG": _config(cast, role, number)}
        if role not in TUNERS:
            found["DMLC_ROLE"] = role
        if role == WORKER:
            found["DMLC_WORKER_ID"] = str(number)
        return found


def _config(cast: Cast, role: str, number: int) -> str:
    cluster: dict[str, list[dict[str, str | int]]] = {}
    labels: dict[str, str] = {}
    for part, group in cast.parts:
        port = cast.port(group)
        cluster.setdefault(part.name, []).extend({"url": host, "port": port} for host in cast.names(group))
        labels.setdefault(part.name, _key(group))
    task = {"type": role, "index": number}
    return json.dumps({"cluster": cluster, "labels": labels, "task": task}, separators=(",", ":"))


def _key(group: Group) -> str:
    annotations = (group.template.get("metadata") or {}).get("annotations") or {}
    return str(annotations.get(KEY) or "")
