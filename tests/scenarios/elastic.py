"""Scenes with ElasticJobs: masters on paper, and plans in the words of whoever writes them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from pliant.frontends import FRONTENDS
from pliant.kube.client import KubeClient
from pliant.kube.resources import PODS, Resource
from tests.controllers.elastic import PLANS, foreign_pod
from tests.scenarios.jobs import FOREVER, Manifest, group
from tests.scenarios.laws import Object
from tests.scenarios.nodes import PaperNodes, paper_nodes
from tests.scenarios.scene import Scene, fresh_name, played

_FRONTEND = FRONTENDS["elastic.iml.github.io", "ElasticJob"]
SOMEBODY_ELSES = ["python", "-m", "dlrover.python.master.main"]


class ElasticScene(Scene):
    """A namespace with ElasticJobs, on nodes on paper."""

    jobs = Resource(_FRONTEND.group, _FRONTEND.version, _FRONTEND.plural, _FRONTEND.kind)
    beside = (PLANS,)

    @property
    def plans(self) -> dict[str, Object]:
        """Every plan there is, by name."""
        return self._of_kind(PLANS.kind)

    def phases_of(self, plan: str) -> list[str]:
        """The phases a plan went through, in order."""
        mine = (change for change in self.history if change.kind == PLANS.kind and change.name == plan)
        return list(dict.fromkeys(change.phase for change in mine if change.phase))

    async def plan(self, name: str, owner: str, kind: str = "auto", **spec: Any) -> None:
        """Write a plan for a job, and hear of it."""
        meta = {"name": name, "labels": {"scale-type": kind, "elasticjob.dlrover/name": owner}}
        body = {"apiVersion": PLANS.api_version, "kind": PLANS.kind, "metadata": meta}
        made = await self.client.create(PLANS, self.namespace, {**body, "spec": {"ownerJob": owner, **spec}})
        uid = made["metadata"]["uid"]
        await self.until(lambda: any(change.uid == uid for change in reversed(self.history)), f"news of {name}")

    def told_of_plan(self, plan: str) -> set[str]:
        """The reasons of the events about a plan."""
        about = [(event["involvedObject"], event["reason"]) for event in self._of_kind("Event").values()]
        return {reason for owner, reason in about if (owner["kind"], owner["name"]) == (PLANS.kind, plan)}

    async def until_done(self, plan: str, phase: str = "Succeeded") -> str:
        """Wait until a plan is over; what it tells then."""
        told = await self.until(lambda: self._over(plan), f"{plan} over")
        assert told["phase"] == phase, told
        return str(told.get("message") or "")

    def _over(self, plan: str) -> Object:
        status: Object = self.plans.get(plan, {}).get("status") or {}
        return status if status.get("phase") in ("Succeeded", "Failed") else {}

    def members(self, job: str) -> dict[str, str]:
        """The uids of a job's workers that are there and not leaving, by id."""
        prefix = f"{job}-edljob-worker-"
        return {
            name.removeprefix(prefix): pod["metadata"]["uid"]
            for name, pod in self.pods.items()
            if name.startswith(prefix) and "deletionTimestamp" not in pod["metadata"]
        }

    async def until_workers(self, job: str, *ids: int) -> dict[str, str]:
        """Wait until exactly these workers are there; their uids by id."""
        wanted = {str(each) for each in ids}
        await self.until(lambda: set(self.members(job)) == wanted, f"workers {sorted(wanted)} of {job}")
        return self.members(job)

    async def until_master(self, job: str, other_than: str = "") -> str:
        """Wait until a job's master runs, and is another; its uid."""

        def uid() -> str:
            pod = self.pods.get(master(job)) or {}
            is_up = (pod.get("status") or {}).get("phase") == "Running"
            is_leaving = "deletionTimestamp" in (pod.get("metadata") or {})
            found = str(pod["metadata"]["uid"]) if is_up and not is_leaving else ""
            return found if found != other_than else ""

        return await self.until(uid, f"a master of {job}")

    async def begin(self, nodes: PaperNodes, name: str, *, theirs: bool = False, **fields: Any) -> Object:
        """Create a job whose master is ours, or somebody else's, and wait for that; fields are of its master."""
        made = await self.submit(job(nodes, name, theirs=theirs, **fields))
        await self.until_master(name)
        return made

    async def make_foreign(self, nodes: PaperNodes, made: Object, index: int) -> None:
        """Make a worker as masters do by themselves."""
        pod = foreign_pod(made, index)
        pod["spec"] |= nodes.fields
        await self.client.create(PODS, self.namespace, pod)


def job(nodes: PaperNodes, name: str, *, theirs: bool = False, size: int | None = None, **fields: Any) -> Manifest:
    """A job with one type of members; fields are of its master."""
    container: Manifest = {"name": "main", **({"image": "theirs", "command": SOMEBODY_ELSES} if theirs else {})}
    pod = {**nodes.fields, "terminationGracePeriodSeconds": 1, "containers": [container]}
    worker = nodes.place(group(FOREVER))
    del worker["replicas"]
    if size is not None:
        worker["replicas"] = size
    return {
        "apiVersion": ElasticScene.jobs.api_version,
        "kind": ElasticScene.jobs.kind,
        "metadata": {"name": name},
        "spec": {
            "distributionStrategy": "AllreduceStrategy",
            "replicaSpecs": {"dlrover-master": {**fields, "template": {"spec": pod}}, "worker": worker},
        },
    }


def master(job: str) -> str:
    """The name of the pod of a job's master."""
    return f"elasticjob-{job}-dlrover-master-0"


@asynccontextmanager
async def elastic_scene(client: KubeClient) -> AsyncIterator[tuple[ElasticScene, PaperNodes]]:
    """A fresh scene, and nodes for its pods."""
    async with played(ElasticScene(client, fresh_name())) as scene, paper_nodes(scene) as nodes:
        yield scene, nodes
