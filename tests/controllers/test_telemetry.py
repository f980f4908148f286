from __future__ import annotations

import asyncio
import re

from pliant.controllers.operator import Operator
from pliant.controllers.telemetry import OperatorTelemetry
from pliant.frontends.aitrainingjob.job import AITrainingJobFrontend
from pliant.kube.client import KubeClient
from pliant.kube.resources import CRDS
from pliant.kube.transport.metered import MeteredTransport
from tests.embedded.serving import serving
from tests.faults.rig import JOBS
from tests.faults.scenarios import group
from tests.virtual_time import VirtualClock, on_virtual_time, quiet

SAMPLE = re.compile(r'^[a-z_]+(\{[a-z]+="[^"]*"(,[a-z]+="[^"]*")*\})? \S+$')


@on_virtual_time
async def test_an_operator_tells_what_it_does_without_naming_anything_of_its_users() -> None:
    async with serving() as served:
        await served.client.create(CRDS, None, AITrainingJobFrontend().crd())
        telemetry = OperatorTelemetry()
        assert telemetry.http_pages["/healthz"]().status == telemetry.http_pages["/readyz"]().status == 200
        clock = asyncio.get_running_loop().time
        client = KubeClient(MeteredTransport(served.transport, telemetry.record_api_call, clock))
        telemetry.operator = operator = Operator(client, VirtualClock(), workers=3)
        assert telemetry.http_pages["/readyz"]().status == 503
        assert "pods, services, aitrainingjobs.elasticdeeplearning.ai" in telemetry.http_pages["/readyz"]().text
        running = asyncio.create_task(operator.run())
        await operator.wait_ready()
        assert telemetry.http_pages["/readyz"]().status == 200
        body = {
            "apiVersion": JOBS.api_version,
            "kind": JOBS.kind,
            "metadata": {"name": "secret-plan", "namespace": "default"},
            "spec": {"replicaSpecs": {"worker": group(2)}},
        }
        await served.client.create(JOBS, "default", body)
        await quiet()
        text = telemetry.http_pages["/metrics"]().text
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    lines = text.splitlines()
    for line in (
        "pliant_leader 1",
        'pliant_workers{controller="aitrainingjobs.elasticdeeplearning.ai"} 3',
        'pliant_queue_depth{controller="aitrainingjobs.elasticdeeplearning.ai"} 0',
        'pliant_informer_objects{resource="pods"} 2',
        "pliant_write_limit 8",
        "pliant_writes_in_flight 0",
        'pliant_writes_waiting{class="creation"} 0',
        'pliant_writes_waiting{class="urgent"} 0',
        "pliant_write_pushbacks_total 0",
        'pliant_informer_lists_total{resource="pods"} 1',
        'pliant_api_requests_total{verb="create",resource="pods",code="201"} 2',
        'pliant_api_request_seconds_count{verb="create",resource="services"} 2',
        'pliant_reconciles_total{controller="aitrainingjobs.elasticdeeplearning.ai",result="failed"} 0',
    ):
        assert line in lines, f"{line}\n{text}"
    assert all(SAMPLE.match(line) for line in lines if not line.startswith("#"))
    assert len({line for line in lines if line.startswith("# TYPE")}) == len(re.findall("# TYPE", text))
    assert "secret-plan" not in text
    assert '"default"' not in text
