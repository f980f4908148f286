from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest

from pliant.controllers.apply import Applier
from pliant.controllers.job import Cluster, JobReconciler
from pliant.controllers.masters import OWNER
from pliant.controllers.nodes import NodeWatch
from pliant.controllers.orphans import JOB_NAME, job_names
from pliant.errors import Conflict
from pliant.frontends.aitrainingjob import AITrainingJob
from pliant.kube.client import KubeClient
from pliant.kube.codec import encode
from pliant.kube.objects import Pod, Service
from pliant.kube.store import ObjectStore
from pliant.kube.transport import Reply, Request, StreamReply, Transport
from pliant.model.job import JobKey
from pliant.model.rules import Rules
from tests.frontends.raw import raw_job
from tests.virtual_time import VirtualClock, on_virtual_time


class Conflicts(Transport):
    """A server on which every object has changed since it was read."""

    async def send(self, request: Request) -> Reply:
        return Reply(status=409, body=encode({"kind": "Status", "reason": "Conflict", "message": "changed"}))

    def stream(self, request: Request) -> AbstractAsyncContextManager[StreamReply]:
        raise NotImplementedError

    async def aclose(self) -> None:
        pass


def reconciler_of(raw: dict[str, Any], client: KubeClient, applier: Applier) -> JobReconciler:
    clock = VirtualClock()
    jobs: ObjectStore[dict[str, Any]] = ObjectStore()
    jobs.replace([raw], 1)
    pods: ObjectStore[Pod] = ObjectStore({OWNER: lambda pod: (), JOB_NAME: job_names})
    services: ObjectStore[Service] = ObjectStore({OWNER: lambda service: ()})
    cluster = Cluster(pods, services, applier, NodeWatch(ObjectStore(), clock), Rules())
    return JobReconciler(AITrainingJob(), client, clock, jobs, cluster)


@on_virtual_time
async def test_the_event_of_a_decision_is_emitted_only_after_the_decision_is_written() -> None:
    emitted: list[object] = []
    client = KubeClient(Conflicts())
    applier = Applier(client, VirtualClock(), ObjectStore(), ObjectStore())
    raw = raw_job(suspend=True)
    raw["metadata"]["resourceVersion"] = "1"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(applier.events, "tell", lambda *words: emitted.append(words))
        with pytest.raises(Conflict):
            await reconciler_of(raw, client, applier).reconcile(JobKey("team", "demo"))
    assert emitted == []
