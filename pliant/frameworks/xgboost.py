"""XGBoost and LightGBM: workers that meet at a tracker, or that know each other's addresses."""

from __future__ import annotations

from collections.abc import Mapping

from pliant.frameworks.casting import Cast
from pliant.model.framework import Framework, Rank, Role
from pliant.model.job import EndPolicy, Job, Port

MASTER, WORKER = "master", "worker"


class XGBoost(Framework):
    """A tracker in rank 0, under the names that scripts and the library read; for LightGBM all workers by name."""

    name = "xgboost"
    aliases = ("lightgbm",)
    port = Port("xgboostjob-port", 9999)
    roles = (
        Role(name=MASTER, aliases=("chief", "launcher"), completes=EndPolicy.RANK0),
        Role(name=WORKER),
    )

    def shared(self, job: Job) -> Mapping[str, str]:
        """Where rank 0 is, and how many there are."""
        cast = Cast(job, self)
        first = cast.first()
        if first is None:
            return {}
        host, port, number = cast.host(first), str(cast.port(first)), str(cast.size())
        found = {
            "MASTER_ADDR": host,
            "MASTER_PORT": port,
            "WORLD_SIZE": number,
            "DMLC_TRACKER_URI": host,
            "DMLC_TRACKER_PORT": port,
            "DMLC_NUM_WORKER": number,
            "PYTHONUNBUFFERED": "1",
        }
        workers = cast.group(WORKER)
        if workers is not None and cast.size() > 1:
            found["WORKER_ADDRS"] = ",".join(cast.hosts(WORKER))
            found["WORKER_PORT"] = str(cast.port(workers))
        return found

    def environment(self, job: Job, rank: Rank, container: str) -> Mapping[str, str]:
        """Which rank one is."""
        number = str(Cast(job, self).number(rank))
        return {"RANK": number, "DMLC_TASK_ID": number}
