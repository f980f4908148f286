from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest

from pliant.controllers.apply import ActionApplier
from pliant.controllers.job import JobReconciler, ReconcilerDependencies
from pliant.controllers.node_faults import NodeFaultDetector
from pliant.controllers.orphan_pods import JOB_NAME_INDEX, job_name_index_keys
from pliant.controllers.owned_objects import OWNER_UID_INDEX
from pliant.errors import Conflict
from pliant.frontends.aitrainingjob.job import AITrainingJobFrontend
from pliant.kube.cache.store import ObjectStore
from pliant.kube.client import KubeClient
from pliant.kube.codec import encode
from pliant.kube.objects import Pod, Service
from pliant.kube.transport.base import Reply, Request, StreamReply, Transport
from pliant.model.job import JobKey
from pliant.model.operator_config import OperatorConfig
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


def reconciler_of(raw: dict[str, Any], client: KubeClient, applier: ActionApplier) -> JobReconciler:
    clock = VirtualClock()
    jobs: ObjectStore[dict[str, Any]] = ObjectStore()
    jobs.apply_complete_list([raw], 1)
    pods: ObjectStore[Pod] = ObjectStore({OWNER_UID_INDEX: lambda pod: (), JOB_NAME_INDEX: job_name_index_keys})
    services: ObjectStore[Service] = ObjectStore({OWNER_UID_INDEX: lambda service: ()})
    cluster = ReconcilerDependencies(pods, services, applier, NodeFaultDetector(ObjectStore(), clock), OperatorConfig())
    return JobReconciler(AITrainingJobFrontend(), client, clock, jobs, cluster)


@on_virtual_time
async def test_the_event_of_a_decision_is_emitted_only_after_the_decision_is_written() -> None:
    emitted: list[object] = []
    client = KubeClient(Conflicts())
    applier = ActionApplier(client, VirtualClock(), ObjectStore(), ObjectStore())
    raw = raw_job(suspend=True)
    raw["metadata"]["resourceVersion"] = "1"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(applier.events, "emit", lambda *words: emitted.append(words))
        with pytest.raises(Conflict):
            await reconciler_of(raw, client, applier).reconcile(JobKey("team", "demo"))
    assert emitted == []
