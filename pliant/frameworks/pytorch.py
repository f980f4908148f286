"""PyTorch and DeepSpeed: a fixed world size by MASTER_ADDR and RANK, or an elastic one by torchrun's rendezvous."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pliant.frameworks.rendezvous_store import STORE_GROUP, build_store_group
from pliant.frameworks.role_assignment import RoleAssignment, gpus_per_replica, group_restart_id, nested_mapping
from pliant.frameworks.torch_rendezvous import (
    build_store,
    client_environment,
    find_python,
    format_rendezvous_conf,
    has_own_rendezvous,
    host_port,
    is_in_volume,
    may_start_torchrun,
)
from pliant.model.departures import PublishedMember
from pliant.model.framework import Framework, Rank, Role
from pliant.model.job import EndPolicy, Job, Port, ReplicaGroup
from pliant.model.labels import replica_pod_name

MASTER_ROLE, WORKER_ROLE = "master", "worker"
MAX_HOST_NAME_CHARS = 63


class PyTorch(Framework):
    """The variables of torch.distributed (MASTER_ADDR, RANK) and of torchrun (PET_*).

    Options: `nproc_per_node`, and for elastic groups `rdzv_backend`, `rdzv_host`, `rdzv_port`, `rdzv_id`,
    `rdzv_conf`, `max_restarts` and `standalone`.
    """

    name = "pytorch"
    port = Port("pytorchjob-port", 23456)
    roles = (
        Role(name=MASTER_ROLE, aliases=("chief", "launcher"), complete_policy=EndPolicy.RANK0),
        Role(name=WORKER_ROLE, may_resize=True),
    )

    def shared_environment(self, job: Job) -> Mapping[str, str]:
        assignment = RoleAssignment(job, self)
        first = assignment.rank0_group()
        if first is None:
            return {}
        processes = str(job.framework_options.get("nproc_per_node") or "auto")
        common = {"PYTHONUNBUFFERED": "1", "PET_NPROC_PER_NODE": processes}
        elastic = _elastic_workers(assignment)
        return {
            **common,
            **(_elastic_environment(assignment, elastic) if elastic else _static_environment(assignment, first)),
        }

    def environment(self, job: Job, rank: Rank, container: str) -> Mapping[str, str]:
        """Return the rank; in elastic jobs torchrun assigns the ranks at each rendezvous."""
        assignment = RoleAssignment(job, self)
        if _elastic_workers(assignment):
            if not _store_host(assignment):
                return {}
            # As PID 1 at the same address, a new agent takes the place of the dead one without waiting for a timeout.
            return {"PET_LOCAL_ADDR": assignment.host(rank.group, rank.index)}
        global_rank = str(assignment.global_rank(rank))
        return {"RANK": global_rank, "PET_NODE_RANK": global_rank}

    def control_group(self, job: Job) -> ReplicaGroup | None:
        """Return the rendezvous store of an elastic job that uses torchrun and has no rendezvous of its own."""
        assignment = RoleAssignment(job, self)
        workers = _elastic_workers(assignment)
        is_wanted = job.has_rendezvous_store
        if workers is None or has_own_rendezvous(workers, job.framework_options):
            return None
        if not (may_start_torchrun(workers) if is_wanted is None else is_wanted):
            return None
        if len(replica_pod_name(job, STORE_GROUP, 0)) > MAX_HOST_NAME_CHARS:
            return None
        python = find_python(workers)
        if is_wanted is None and is_in_volume(workers, python):
            return None  # the store has no volumes: worker 0 hosts the rendezvous
        return build_store_group(workers, build_store(_rendezvous_port(assignment, workers, is_store=True), python))


class DeepSpeed(PyTorch):
    """The PyTorch environment and /job/hostfile.

    Option `nproc_per_node` is the number of slots per host; the default is the number of GPUs, at least 1.
    """

    name = "deepspeed"
    files_dir = "/job"

    def files(self, job: Job) -> Mapping[str, str]:
        """Return the hostfile, in rank order; a replica keeps the hostfile of the time when it started."""
        assignment = RoleAssignment(job, self)
        hostfile = ""
        for group in assignment.groups():
            slots = _slots(job, group)
            hostfile += "".join(f"{host} slots={slots}\n" for host in assignment.group_hosts(group))
        return {"hostfile": hostfile} if hostfile else {}

    def membership_files(self, job: Job, members: Sequence[PublishedMember]) -> Mapping[str, str]:
        """Return the hostfile of the current members, if a group is elastic."""
        groups = [group for group in job.training_groups if group.is_elastic]
        if not groups:
            return {}
        slots = {group.name: _slots(job, group) for group in job.training_groups}
        namespace = f".{job.key.namespace}"
        lines = (f"{member.address.removesuffix(namespace)} slots={slots[member.group]}\n" for member in members)
        return {"hostfile": "".join(lines)}


def _slots(job: Job, group: ReplicaGroup) -> int:
    option = str(job.framework_options.get("nproc_per_node"))
    return int(option) if option.isdigit() else max(gpus_per_replica(group), 1)


def _static_environment(assignment: RoleAssignment, rank0_group: ReplicaGroup) -> dict[str, str]:
    host, port = assignment.host(rank0_group), str(assignment.group_port(rank0_group))
    nodes, processes = assignment.count_replicas(), str(assignment.job.framework_options.get("nproc_per_node"))
    return {
        "MASTER_ADDR": host,
        "MASTER_PORT": port,
        "WORLD_SIZE": str(nodes * int(processes) if processes.isdigit() else nodes),
        "PET_MASTER_ADDR": host,
        "PET_MASTER_PORT": port,
        "PET_NNODES": str(nodes),
    }


def _elastic_workers(assignment: RoleAssignment) -> ReplicaGroup | None:
    return next((group for group in assignment.groups(WORKER_ROLE) if group.is_elastic), None)


def _store_host(assignment: RoleAssignment) -> str:
    return next((assignment.host(group) for group in assignment.job.groups if group.is_control), "")


def _rendezvous_port(assignment: RoleAssignment, workers: ReplicaGroup, *, is_store: bool) -> int:
    if port := assignment.job.framework_options.get("rdzv_port"):
        return int(port)
    if is_store and nested_mapping(workers.template, "spec").get("hostNetwork"):
        return host_port(assignment.job.owner.uid)
    return assignment.group_port(workers)


def _elastic_environment(assignment: RoleAssignment, workers: ReplicaGroup) -> dict[str, str]:
    """Return the rendezvous settings of torchrun, without counts that change with the size."""
    options = assignment.job.framework_options
    others = assignment.count_replicas() - workers.size
    min_nodes = max(workers.min_size, 1) + others
    max_nodes = (workers.max_size or max(workers.size, workers.min_size)) + others
    store_host = _store_host(assignment)
    host = store_host or options.get("rdzv_host") or assignment.host(workers)
    variables = {
        "PET_NNODES": f"{min_nodes}:{max_nodes}",
        "PET_RDZV_BACKEND": str(options.get("rdzv_backend") or "c10d"),
        "PET_RDZV_ENDPOINT": f"{host}:{_rendezvous_port(assignment, workers, is_store=bool(store_host))}",
        # A restarted job needs another ID: the rendezvous of the previous one is closed.
        "PET_RDZV_ID": str(options.get("rdzv_id") or group_restart_id(assignment.job, workers)),
    }
    if store_host:
        return {**variables, **client_environment(options)}
    if options.get("rdzv_conf"):
        variables["PET_RDZV_CONF"] = format_rendezvous_conf(options["rdzv_conf"])
    if options.get("max_restarts") is not None:
        variables["PET_MAX_RESTARTS"] = str(options["max_restarts"])
    if options.get("standalone"):
        variables["PET_STANDALONE"] = "1"  # torchrun reads flags as numbers
    return variables
