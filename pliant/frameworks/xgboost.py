"""XGBoost and LightGBM: workers that meet at a tracker, or that know each other's addresses."""

from __future__ import annotations

from collections.abc import Mapping

from pliant.frameworks.role_assignment import RoleAssignment
from pliant.model.framework import Framework, Rank, Role
from pliant.model.job import EndPolicy, Job, Port

MASTER_ROLE, WORKER_ROLE = "master", "worker"


class XGBoost(Framework):
    """A tracker in rank 0, under the names that scripts and the library read; for LightGBM all workers by name."""

    name = "xgboost"
    aliases = ("lightgbm",)
    port = Port("xgboostjob-port", 9999)
    roles = (
        Role(name=MASTER_ROLE, aliases=("chief", "launcher"), complete_policy=EndPolicy.RANK0),
        Role(name=WORKER_ROLE),
    )

    def shared_environment(self, job: Job) -> Mapping[str, str]:
        """Where rank 0 is, and how many there are."""
        cast = RoleAssignment(job, self)
        first = cast.rank0_group()
        if first is None:
            return {}
        host, port, number = cast.host(first), str(cast.group_port(first)), str(cast.count_replicas())
        found = {
            "MASTER_ADDR": host,
            "MASTER_PORT": port,
            "WORLD_SIZE": number,
            "DMLC_TRACKER_URI": host,
            "DMLC_TRACKER_PORT": port,
            "DMLC_NUM_WORKER": number,
            "PYTHONUNBUFFERED": "1",
        }
        workers = cast.first_group(WORKER_ROLE)
        if workers is not None and cast.count_replicas() > 1:
            found["WORKER_ADDRS"] = ",".join(cast.hosts(WORKER_ROLE))
            found["WORKER_PORT"] = str(cast.group_port(workers))
        return found

    def environment(self, job: Job, rank: Rank, container: str) -> Mapping[str, str]:
        """Which rank one is."""
        number = str(RoleAssignment(job, self).global_rank(rank))
        return {"RANK": number, "DMLC_TASK_ID": number}
