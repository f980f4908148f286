"""XGBoost and LightGBM: workers that connect to a tracker, or to each other by a list of addresses."""

from __future__ import annotations

from collections.abc import Mapping

from pliant.frameworks.role_assignment import RoleAssignment
from pliant.model.framework import Framework, Rank, Role
from pliant.model.job import EndPolicy, Job, Port

MASTER_ROLE, WORKER_ROLE = "master", "worker"


class XGBoost(Framework):
    """The address of the tracker in rank 0; for LightGBM the list of workers."""

    name = "xgboost"
    aliases = ("lightgbm",)
    port = Port("xgboostjob-port", 9999)
    roles = (
        Role(name=MASTER_ROLE, aliases=("chief", "launcher"), complete_policy=EndPolicy.RANK0),
        Role(name=WORKER_ROLE),
    )

    def shared_environment(self, job: Job) -> Mapping[str, str]:
        assignment = RoleAssignment(job, self)
        first = assignment.rank0_group()
        if first is None:
            return {}
        host, port = assignment.host(first), str(assignment.group_port(first))
        world_size = str(assignment.count_replicas())
        variables = {
            "MASTER_ADDR": host,
            "MASTER_PORT": port,
            "WORLD_SIZE": world_size,
            "DMLC_TRACKER_URI": host,
            "DMLC_TRACKER_PORT": port,
            "DMLC_NUM_WORKER": world_size,
            "PYTHONUNBUFFERED": "1",
        }
        workers = assignment.first_group(WORKER_ROLE)
        if workers is not None and assignment.count_replicas() > 1:
            variables["WORKER_ADDRS"] = ",".join(assignment.hosts(WORKER_ROLE))
            variables["WORKER_PORT"] = str(assignment.group_port(workers))
        return variables

    def environment(self, job: Job, rank: Rank, container: str) -> Mapping[str, str]:
        global_rank = str(RoleAssignment(job, self).global_rank(rank))
        return {"RANK": global_rank, "DMLC_TASK_ID": global_rank}
