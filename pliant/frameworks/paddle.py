"""PaddlePaddle: trainers among themselves or with parameter servers, in the words of all its generations."""

from __future__ import annotations

from collections.abc import Mapping

from pliant.frameworks.role_assignment import RoleAssignment
from pliant.model.framework import Framework, Rank, Role
from pliant.model.job import EndPolicy, Job, Port, ReplicaGroup, ResizeMode

MASTER_ROLE, PSERVER_ROLE, HETER_ROLE, TRAINER_ROLE = "master", "pserver", "heter", "worker"
TRAINING_ROLES = {PSERVER_ROLE: "PSERVER", HETER_ROLE: "HETER", TRAINER_ROLE: "TRAINER"}
BASE_PORT = 36000
"""Where members listen; the port that bears the framework's name is that of the meeting place alone."""
PORT_COUNT = "20"
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
        Role(name=MASTER_ROLE, complete_policy=EndPolicy.NONE),
        Role(name=PSERVER_ROLE, aliases=("ps", "server"), complete_policy=EndPolicy.NONE),
        Role(name=HETER_ROLE, complete_policy=EndPolicy.NONE),
        Role(name=TRAINER_ROLE, aliases=("trainer",), may_resize=True),
    )

    def shared_environment(self, job: Job) -> Mapping[str, str]:
        """Where the others are, and how many."""
        cast = RoleAssignment(job, self)
        is_fluid = bool(job.framework_options.get("fluid"))
        ranks = (PSERVER_ROLE, HETER_ROLE, TRAINER_ROLE) if is_fluid else ()
        first = cast.rank0_group(*ranks)
        if first is None:
            return {}
        # In a job of that time the first port of a member is that of its parameters.
        port = self.port.number if is_fluid else cast.group_port(first)
        meeting = job.framework_options.get("elastic_server")
        found = {
            "PADDLE_JOB_ID": job.key.name,
            "PADDLE_MASTER": f"etcd://{meeting}" if meeting else f"{_qualified_host(cast, first, 0)}:{port}",
            "PADDLE_NNODES": str(cast.count_replicas(*ranks)),
            "TRAINER_PORTS_NUM": PORT_COUNT,
            "PYTHONUNBUFFERED": "1",
        }
        if is_fluid:
            found |= _fluid_environment(cast)
        elif cast.count_replicas(MASTER_ROLE):
            return found
        if cast.count_replicas(PSERVER_ROLE):
            return {**found, **_trainer_environment(cast), **_server_environment(cast)}
        elastic = next((group for group in cast.groups(TRAINER_ROLE) if _is_dynamic(group)), None)
        return {**found, **(_elastic_environment(cast, elastic) if elastic else _trainer_environment(cast))}

    def environment(self, job: Job, rank: Rank, container: str) -> Mapping[str, str]:
        """Who one is; among trainers that come and go numbers are given out at each meeting."""
        cast = RoleAssignment(job, self)
        role = cast.role_name(rank.group)
        host, port = _qualified_host(cast, rank.group, rank.index), _base_port(rank.group)
        is_fluid = bool(job.framework_options.get("fluid"))
        if is_fluid and role == MASTER_ROLE:
            return {"POD_IP": host}
        if cast.count_replicas(MASTER_ROLE) and not is_fluid:
            # Servers are called masters where the launch module is to find out everything else by itself.
            return {"POD_IP": host, "PADDLE_SERVER_NUM" if role == MASTER_ROLE else "PADDLE_TRAINER_NUM": "1"}
        found = {
            "POD_IP": host,
            "PADDLE_PORT": str(port),
            "PADDLE_CURRENT_IP": host,
            "TRAINING_ROLE": TRAINING_ROLES[role],
            "PADDLE_TRAINING_ROLE": TRAINING_ROLES[role],
        }
        number = str(_trainer_id(cast, rank, role))
        if is_fluid:
            found |= {"PADDLE_TRAINER_ID": number, "PADDLE_INIT_TRAINER_ID": number}
        if not cast.count_replicas(PSERVER_ROLE) and any(map(_is_dynamic, cast.groups(TRAINER_ROLE))):
            return found
        found["PADDLE_TRAINER_ID"] = number
        found["PADDLE_CURRENT_ENDPOINT"] = f"{host}:{port}"
        return found


def _trainer_id(assignment: RoleAssignment, rank: Rank, role: str) -> int:
    """One's number among one's like; Paddle looks up even a server's among trainers, and fails beyond them."""
    number, trainers = assignment.global_rank(rank, role), assignment.count_replicas(TRAINER_ROLE)
    return number if role == TRAINER_ROLE or number < trainers else 0


def _is_dynamic(group: ReplicaGroup) -> bool:
    """Whether members are told bounds; those who start again at each size are told numbers and names."""
    return group.is_elastic and group.resize_mode is ResizeMode.JOIN


def _fluid_environment(assignment: RoleAssignment) -> dict[str, str]:
    """Numbers and names as they were at first; of trainers that come and go the fewest there may be."""
    trainers = assignment.first_group(TRAINER_ROLE)
    least = str((trainers.min_size if _is_dynamic(trainers) else trainers.size) if trainers else 0)
    found = {
        "TRAINERS": least,
        "PSERVERS": str(assignment.count_replicas(PSERVER_ROLE)),
        "PADDLE_INIT_NUM_GRADIENT_SERVERS": least,
        "PADDLE_INIT_PSERVERS": ",".join(_qualified_hosts(assignment, PSERVER_ROLE)),
        "PADDLE_TRAINERS": str(assignment.count_replicas(TRAINER_ROLE)),
        "PADDLE_PSERVERS": str(assignment.count_replicas(PSERVER_ROLE)),
    }
    if (master := assignment.first_group(MASTER_ROLE)) is not None:
        found |= dict.fromkeys(("MASTER_IP", "ETCD_IP"), _qualified_host(assignment, master, 0))
    return found


def _trainer_environment(assignment: RoleAssignment) -> dict[str, str]:
    """All trainers by name."""
    trainers = assignment.count_replicas(TRAINER_ROLE)
    return {
        "PADDLE_TRAINERS_NUM": str(trainers),
        "PADDLE_TRAINERS": str(trainers)
        if assignment.job.framework_options.get("fluid")
        else ",".join(_qualified_hosts(assignment, TRAINER_ROLE)),
        "PADDLE_TRAINER_ENDPOINTS": ",".join(_qualified_endpoints(assignment, TRAINER_ROLE)),
    }


def _server_environment(assignment: RoleAssignment) -> dict[str, str]:
    """All parameter servers by name."""
    servers, endpoints = assignment.count_replicas(PSERVER_ROLE), _qualified_endpoints(assignment, PSERVER_ROLE)
    first = assignment.first_group(PSERVER_ROLE)
    found = {
        "PADDLE_PSERVERS_NUM": str(servers),
        "PADDLE_PSERVERS": str(servers)
        if assignment.job.framework_options.get("fluid")
        else ",".join(_qualified_hosts(assignment, PSERVER_ROLE)),
        "PADDLE_PSERVERS_IP_PORT_LIST": ",".join(endpoints),
        "PADDLE_PSERVER_IPS": ",".join(_qualified_hosts(assignment, PSERVER_ROLE)),
        "PADDLE_PSERVER_PORT": str(_base_port(first)) if first else "",
    }
    if assignment.count_replicas(HETER_ROLE):
        found["PADDLE_HETER_ENDPOINTS"] = ",".join(_qualified_endpoints(assignment, HETER_ROLE))
    if gloo := assignment.job.framework_options.get("with_gloo"):
        found["PADDLE_WITH_GLOO"] = str(int(gloo))
        found["PADDLE_GLOO_RENDEZVOUS"] = "3"
        # One of the first server's other ports: its own is taken by what it serves.
        host, _, port = endpoints[0].rpartition(":")
        found["PADDLE_GLOO_HTTP_ENDPOINT"] = f"{host}:{int(port) + int(PORT_COUNT) - 2}"
    return found


def _elastic_environment(assignment: RoleAssignment, trainers: ReplicaGroup) -> dict[str, str]:
    """Bounds instead of lists that would go stale."""
    told, key = assignment.job.framework_options, assignment.job.key
    least, most = max(trainers.min_size, 1), trainers.max_size or max(trainers.size, trainers.min_size)
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


def _base_port(group: ReplicaGroup) -> int:
    own = [port.number for port in group.ports if port.name != Paddle.port.name]
    return own[0] if own else BASE_PORT


def _qualified_host(assignment: RoleAssignment, group: ReplicaGroup, index: int) -> str:
    return f"{assignment.host(group, index)}.{assignment.job.key.namespace}"


def _qualified_hosts(assignment: RoleAssignment, role: str) -> list[str]:
    return [f"{host}.{assignment.job.key.namespace}" for host in assignment.hosts(role)]


def _qualified_endpoints(assignment: RoleAssignment, role: str) -> list[str]:
    return [
        f"{host}.{assignment.job.key.namespace}:{_base_port(group)}"
        for group in assignment.groups(role)
        for host in assignment.group_hosts(group)
    ]
