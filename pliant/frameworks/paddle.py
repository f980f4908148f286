"""PaddlePaddle: trainers with or without parameter servers, for all versions of its launcher."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pliant.frameworks.role_assignment import RoleAssignment
from pliant.model.departures import PublishedMember
from pliant.model.framework import Framework, Rank, Role
from pliant.model.job import EndPolicy, Job, Port, ReplicaGroup, ResizeMode

MASTER_ROLE, PSERVER_ROLE, HETER_ROLE, TRAINER_ROLE = "master", "pserver", "heter", "worker"
TRAINING_ROLE_VARIABLE_VALUES = {PSERVER_ROLE: "PSERVER", HETER_ROLE: "HETER", TRAINER_ROLE: "TRAINER"}
DEFAULT_FIRST_PORT = 36000
"""The default port of replicas; `Paddle.port` is only for the rendezvous."""
PORTS_PER_REPLICA = "20"
"""The number of ports from the base port on that a replica may use."""


class Paddle(Framework):
    """The variables of `paddle.distributed.launch`, of fleet and of its predecessor fluid.

    Host names contain a dot: Paddle accepts only such names as addresses.
    Options: `elastic_server` (host:port of etcd), `max_restarts`, `with_gloo` and `fluid`, with which
    PADDLE_TRAINERS and PADDLE_PSERVERS are counts and the variables of fluid are set as well.
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
        assignment = RoleAssignment(job, self)
        is_fluid = bool(job.framework_options.get("fluid"))
        roles = (PSERVER_ROLE, HETER_ROLE, TRAINER_ROLE) if is_fluid else ()
        first = assignment.rank0_group(*roles)
        if first is None:
            return {}
        # In fluid jobs the first port of a replica is used for parameters.
        port = self.port.number if is_fluid else assignment.group_port(first)
        etcd = job.framework_options.get("elastic_server")
        variables = {
            "PADDLE_JOB_ID": job.key.name,
            "PADDLE_MASTER": f"etcd://{etcd}" if etcd else f"{_qualified_host(assignment, first, 0)}:{port}",
            "PADDLE_NNODES": str(assignment.count_replicas(*roles)),
            "TRAINER_PORTS_NUM": PORTS_PER_REPLICA,
            "PYTHONUNBUFFERED": "1",
        }
        if is_fluid:
            variables |= _fluid_environment(assignment)
        elif assignment.count_replicas(MASTER_ROLE):
            return variables
        if assignment.count_replicas(PSERVER_ROLE):
            return {**variables, **_trainer_environment(assignment), **_server_environment(assignment)}
        elastic = next((group for group in assignment.groups(TRAINER_ROLE) if _gets_size_bounds(group)), None)
        variables |= _elastic_environment(assignment, elastic) if elastic else _trainer_environment(assignment)
        return variables

    def membership_files(self, job: Job, members: Sequence[PublishedMember]) -> Mapping[str, str]:
        """Return the number of trainers for Paddle's elastic launcher, which gets size bounds otherwise."""
        elastic = [each for each in RoleAssignment(job, self).groups(TRAINER_ROLE) if _gets_size_bounds(each)]
        if not elastic or job.framework_options.get("fluid"):
            return {}
        trainers = {group.name for group in elastic}
        return {"np": f"{sum(member.group in trainers for member in members)}\n"}

    def environment(self, job: Job, rank: Rank, container: str) -> Mapping[str, str]:
        """Return the identity of a replica; elastic trainers get their ranks at each rendezvous."""
        assignment = RoleAssignment(job, self)
        role = assignment.role_name(rank.group)
        host, port = _qualified_host(assignment, rank.group, rank.index), _base_port(rank.group)
        is_fluid = bool(job.framework_options.get("fluid"))
        if is_fluid and role == MASTER_ROLE:
            return {"POD_IP": host}
        if assignment.count_replicas(MASTER_ROLE) and not is_fluid:
            # In such jobs the masters are the parameter servers, and the launcher finds out everything else.
            return {"POD_IP": host, "PADDLE_SERVER_NUM" if role == MASTER_ROLE else "PADDLE_TRAINER_NUM": "1"}
        variables = {
            "POD_IP": host,
            "PADDLE_PORT": str(port),
            "PADDLE_CURRENT_IP": host,
            "TRAINING_ROLE": TRAINING_ROLE_VARIABLE_VALUES[role],
            "PADDLE_TRAINING_ROLE": TRAINING_ROLE_VARIABLE_VALUES[role],
        }
        trainer_id = str(_trainer_id(assignment, rank, role))
        if is_fluid:
            variables |= {"PADDLE_TRAINER_ID": trainer_id, "PADDLE_INIT_TRAINER_ID": trainer_id}
        if not assignment.count_replicas(PSERVER_ROLE) and any(map(_gets_size_bounds, assignment.groups(TRAINER_ROLE))):
            return variables
        variables["PADDLE_TRAINER_ID"] = trainer_id
        variables["PADDLE_CURRENT_ENDPOINT"] = f"{host}:{port}"
        return variables


def _trainer_id(assignment: RoleAssignment, rank: Rank, role: str) -> int:
    """Return the index within the role; Paddle fails if that of a server is not also the index of a trainer."""
    number, trainers = assignment.global_rank(rank, role), assignment.count_replicas(TRAINER_ROLE)
    return number if role == TRAINER_ROLE or number < trainers else 0


def _gets_size_bounds(group: ReplicaGroup) -> bool:
    """Return whether replicas get size bounds; those that restart at each resize get counts and names instead."""
    return group.is_elastic and group.resize_mode is ResizeMode.JOIN


def _fluid_environment(assignment: RoleAssignment) -> dict[str, str]:
    """Return the variables of fluid; the number of elastic trainers is their minimum."""
    trainers = assignment.first_group(TRAINER_ROLE)
    trainer_count = str((trainers.min_size if _gets_size_bounds(trainers) else trainers.size) if trainers else 0)
    variables = {
        "TRAINERS": trainer_count,
        "PSERVERS": str(assignment.count_replicas(PSERVER_ROLE)),
        "PADDLE_INIT_NUM_GRADIENT_SERVERS": trainer_count,
        "PADDLE_INIT_PSERVERS": ",".join(_qualified_hosts(assignment, PSERVER_ROLE)),
        "PADDLE_TRAINERS": str(assignment.count_replicas(TRAINER_ROLE)),
        "PADDLE_PSERVERS": str(assignment.count_replicas(PSERVER_ROLE)),
    }
    if (master := assignment.first_group(MASTER_ROLE)) is not None:
        variables |= dict.fromkeys(("MASTER_IP", "ETCD_IP"), _qualified_host(assignment, master, 0))
    return variables


def _trainer_environment(assignment: RoleAssignment) -> dict[str, str]:
    trainers = assignment.count_replicas(TRAINER_ROLE)
    return {
        "PADDLE_TRAINERS_NUM": str(trainers),
        "PADDLE_TRAINERS": str(trainers)
        if assignment.job.framework_options.get("fluid")
        else ",".join(_qualified_hosts(assignment, TRAINER_ROLE)),
        "PADDLE_TRAINER_ENDPOINTS": ",".join(_qualified_endpoints(assignment, TRAINER_ROLE)),
    }


def _server_environment(assignment: RoleAssignment) -> dict[str, str]:
    servers, endpoints = assignment.count_replicas(PSERVER_ROLE), _qualified_endpoints(assignment, PSERVER_ROLE)
    first = assignment.first_group(PSERVER_ROLE)
    variables = {
        "PADDLE_PSERVERS_NUM": str(servers),
        "PADDLE_PSERVERS": str(servers)
        if assignment.job.framework_options.get("fluid")
        else ",".join(_qualified_hosts(assignment, PSERVER_ROLE)),
        "PADDLE_PSERVERS_IP_PORT_LIST": ",".join(endpoints),
        "PADDLE_PSERVER_IPS": ",".join(_qualified_hosts(assignment, PSERVER_ROLE)),
        "PADDLE_PSERVER_PORT": str(_base_port(first)) if first else "",
    }
    if assignment.count_replicas(HETER_ROLE):
        variables["PADDLE_HETER_ENDPOINTS"] = ",".join(_qualified_endpoints(assignment, HETER_ROLE))
    if gloo := assignment.job.framework_options.get("with_gloo"):
        variables["PADDLE_WITH_GLOO"] = str(int(gloo))
        variables["PADDLE_GLOO_RENDEZVOUS"] = "3"
        # Another port of the first server: its base port is used for parameters.
        host, _, port = endpoints[0].rpartition(":")
        variables["PADDLE_GLOO_HTTP_ENDPOINT"] = f"{host}:{int(port) + int(PORTS_PER_REPLICA) - 2}"
    return variables


def _elastic_environment(assignment: RoleAssignment, trainers: ReplicaGroup) -> dict[str, str]:
    """Return size bounds instead of lists, which would become outdated."""
    options, key = assignment.job.framework_options, assignment.job.key
    min_size, max_size = max(trainers.min_size, 1), trainers.max_size or max(trainers.size, trainers.min_size)
    variables = {
        "PADDLE_NNODES": f"{min_size}:{max_size}",
        "PADDLE_ELASTIC_JOB_ID": f"{key.namespace}-{key.name}",
        "PADDLE_ELASTIC_NP": str(trainers.size),
        "PADDLE_ELASTIC_TIMEOUT": "60",
        "PADDLE_ELASTIC_LEVEL": "1",
    }
    if options.get("elastic_server"):
        variables["PADDLE_ELASTIC_SERVER"] = str(options["elastic_server"])
    if options.get("max_restarts") is not None:
        variables["PADDLE_MAX_RESTART"] = str(options["max_restarts"])
    return variables


def _base_port(group: ReplicaGroup) -> int:
    own = [port.number for port in group.ports if port.name != Paddle.port.name]
    return own[0] if own else DEFAULT_FIRST_PORT


def _qualified_host(assignment: RoleAssignment, group: ReplicaGroup, index: int) -> str:
    return f"{assignment.host(group, index)}.{assignment.job.key.namespace}"


def _qualified_hosts(assignment: RoleAssignment, role: str) -> list[str]:
    return [f"{host}.{assignment.job.key.namespace}" for host in assignment.hosts(role)]


def _qualified_endpoints(assignment: RoleAssignment, role: str) -> list[str]:
    hosts = [(host, _base_port(group)) for group in assignment.groups(role) for host in assignment.group_hosts(group)]
    return [f"{host}.{assignment.job.key.namespace}:{port}" for host, port in hosts]
