"""PaddlePaddle: trainers among themselves or with parameter servers, in the words of all its generations."""

from __future__ import annotations

from collections.abc import Mapping

from pliant.frameworks.casting import Cast
from pliant.model.framework import Framework, Rank, Role
from pliant.model.job import EndPolicy, Group, Job, Port, Resize

MASTER, PSERVER, HETER, TRAINER = "master", "pserver", "heter", "worker"
TRAINING_ROLES = {PSERVER: "PSERVER", HETER: "HETER", TRAINER: "TRAINER"}
BASE_PORT = 36000
"""Where members listen; the port that bears the framework's name is that of the meeting place alone."""
PORTS = "20"
"""Ports from the first one on that a member may use."""


class Paddle(Framework):
    """What `paddle.distributed.launch` takes for its options, what fleet reads, and what fluid read before it.

    Hosts are names with a dot: Paddle takes those, and only those, for an address of its own.
    Options: `elastic_server` (host:port of an etcd), `max_restarts`, `with_gloo`, and `fluid`, with which
    PADDLE_TRAINERS and PADDLE_PSERVERS are numbers, as they were at first, and what programs and images of that
    time read is there as well.
    """

    name = "paddle"
    aliases = ("paddlepaddle",)
    port = Port("master", 36543)
    roles = (
        Role(name=MASTER, completes=EndPolicy.NONE),
        Role(name=PSERVER, aliases=("ps", "server"), completes=EndPolicy.NONE),
        Role(name=HETER, completes=EndPolicy.NONE),
        Role(name=TRAINER, aliases=("trainer",), may_resize=True),
    )

    def shared(self, job: Job) -> Mapping[str, str]:
        """Where the others are, and how many."""
        cast = Cast(job, self)
        is_fluid = bool(job.options.get("fluid"))
        ranks = (PSERVER, HETER, TRAINER) if is_fluid else ()
        first = cast.first(*ranks)
        if first is None:
            return {}
        # In a job of that time the first port of a member is that of its parameters.
        port = self.port.number if is_fluid else cast.port(first)
        meeting = job.options.get("elastic_server")
        found = {
            "PADDLE_JOB_ID": job.key.name,
            "PADDLE_MASTER": f"etcd://{meeting}" if meeting else f"{_host(cast, first, 0)}:{port}",
            "PADDLE_NNODES": str(cast.size(*ranks)),
            "TRAINER_PORTS_NUM": PORTS,
            "PYTHONUNBUFFERED": "1",
        }
        if is_fluid:
            found |= _fluid(cast)
        elif cast.size(MASTER):
            return found
        if cast.size(PSERVER):
            return {**found, **_directory(cast), **_servers(cast)}
        elastic = next((group for group in cast.groups(TRAINER) if _comes_and_goes(group)), None)
        return {**found, **(_elastic(cast, elastic) if elastic else _directory(cast))}

    def environment(self, job: Job, rank: Rank, container: str) -> Mapping[str, str]:
        """Who one is; among trainers that come and go numbers are given out at each meeting."""
        cast = Cast(job, self)
        role = cast.role(rank.group)
        host, port = _host(cast, rank.group, rank.index), _base(rank.group)
        is_fluid = bool(job.options.get("fluid"))
        if is_fluid and role == MASTER:
            return {"POD_IP": host}
        if cast.size(MASTER) and not is_fluid:
            # Servers are called masters where the launch module is to find out everything else by itself.
            return {"POD_IP": host, "PADDLE_SERVER_NUM" if role == MASTER else "PADDLE_TRAINER_NUM": "1"}
        found = {
            "POD_IP": host,
            "PADDLE_PORT": str(port),
            "PADDLE_CURRENT_IP": host,
            "TRAINING_ROLE": TRAINING_ROLES[role],
            "PADDLE_TRAINING_ROLE": TRAINING_ROLES[role],
        }
        number = str(_number(cast, rank, role))
        if is_fluid:
            found |= {"PADDLE_TRAINER_ID": number, "PADDLE_INIT_TRAINER_ID": number}
        if not cast.size(PSERVER) and any(map(_comes_and_goes, cast.groups(TRAINER))):
            return found
        found["PADDLE_TRAINER_ID"] = number
        found["PADDLE_CURRENT_ENDPOINT"] = f"{host}:{port}"
        return found


def _number(cast: Cast, rank: Rank, role: str) -> int:
    """One's number among one's like; Paddle looks up even a server's among trainers, and fails beyond them."""
    number, trainers = cast.number(rank, role), cast.size(TRAINER)
    return number if role == TRAINER or number < trainers else 0


def _comes_and_goes(group: Group) -> bool:
    """Whether members are told bounds; those who start again at each size are told numbers and names."""
    return group.is_elastic and group.resize is Resize.JOIN


def _fluid(cast: Cast) -> dict[str, str]:
    """Numbers and names as they were at first; of trainers that come and go the fewest there may be."""
    trainers = cast.group(TRAINER)
    least = str((trainers.least if _comes_and_goes(trainers) else trainers.size) if trainers else 0)
    found = {
        "TRAINERS": least,
        "PSERVERS": str(cast.size(PSERVER)),
        "PADDLE_INIT_NUM_GRADIENT_SERVERS": least,
        "PADDLE_INIT_PSERVERS": ",".join(_hosts(cast, PSERVER)),
        "PADDLE_TRAINERS": str(cast.size(TRAINER)),
        "PADDLE_PSERVERS": str(cast.size(PSERVER)),
    }
    if (master := cast.group(MASTER)) is not None:
        found |= dict.fromkeys(("MASTER_IP", "ETCD_IP"), _host(cast, master, 0))
    return found


def _directory(cast: Cast) -> dict[str, str]:
    """All trainers by name."""
    trainers = cast.size(TRAINER)
    return {
        "PADDLE_TRAINERS_NUM": str(trainers),
        "PADDLE_TRAINERS": str(trainers) if cast.job.options.get("fluid") else ",".join(_hosts(cast, TRAINER)),
        "PADDLE_TRAINER_ENDPOINTS": ",".join(_endpoints(cast, TRAINER)),
    }


def _servers(cast: Cast) -> dict[str, str]:
    """All parameter servers by name."""
    servers, endpoints = cast.size(PSERVER), _endpoints(cast, PSERVER)
    first = cast.group(PSERVER)
    found = {
        "PADDLE_PSERVERS_NUM": str(servers),
        "PADDLE_PSERVERS": str(servers) if cast.job.options.get("fluid") else ",".join(_hosts(cast, PSERVER)),
        "PADDLE_PSERVERS_IP_PORT_LIST": ",".join(endpoints),
        "PADDLE_PSERVER_IPS": ",".join(_hosts(cast, PSERVER)),
        "PADDLE_PSERVER_PORT": str(_base(first)) if first else "",
    }
    if cast.size(HETER):
        found["PADDLE_HETER_ENDPOINTS"] = ",".join(_endpoints(cast, HETER))
    if gloo := cast.job.options.get("with_gloo"):
        found["PADDLE_WITH_GLOO"] = str(int(gloo))
        found["PADDLE_GLOO_RENDEZVOUS"] = "3"
        # One of the first server's other ports: its own is taken by what it serves.
        host, _, port = endpoints[0].rpartition(":")
        found["PADDLE_GLOO_HTTP_ENDPOINT"] = f"{host}:{int(port) + int(PORTS) - 2}"
    return found


def _elastic(cast: Cast, trainers: Group) -> dict[str, str]:
    """Bounds instead of lists that would go stale."""
    told, key = cast.job.options, cast.job.key
    least, most = max(trainers.least, 1), trainers.most or max(trainers.size, trainers.least)
    found = {
        "PADDLE_NNODES": f"{least}:{most}",
        "PADDLE_ELASTIC_JOB_ID": f"{key.namespace}-{key.name}",
        "PADDLE_ELASTIC_NP": str(trainers.size),
        "PADDLE_ELASTIC_TIMEOUT": "60",
        "PADDLE_ELASTIC_LEVEL": "1",
    }
    if told.get("elastic_server"):
        found["PADDLE_ELASTIC_SERVER"] = str(told["elastic_server"])
    if told.get("max_restarts") is not None:
        found["PADDLE_MAX_RESTART"] = str(told["max_restarts"])
    return found


def _base(group: Group) -> int:
    own = [port.number for port in group.ports if port.name != Paddle.port.name]
    return own[0] if own else BASE_PORT


def _host(cast: Cast, group: Group, index: int) -> str:
    return f"{cast.host(group, index)}.{cast.job.key.namespace}"


def _hosts(cast: Cast, role: str) -> list[str]:
    return [f"{host}.{cast.job.key.namespace}" for host in cast.hosts(role)]


def _endpoints(cast: Cast, role: str) -> list[str]:
    return [
        f"{host}.{cast.job.key.namespace}:{_base(group)}"
        for group in cast.groups(role)
        for host in cast.names(group)
    ]
