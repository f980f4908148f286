"""A whole cluster that is stopped for a minute goes on as if nothing had been."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest

from pliant.kube.client import KubeClient
from pliant.kube.client_config import create_transport
from pliant.kube.resources import EVENTS
from pliant.runtime.clock import SystemClock
from tests.scenarios.cluster import an_ordinary_user, cluster
from tests.scenarios.jobs import FOREVER, group, job
from tests.scenarios.scene import a_scene


@pytest.mark.deep  # tests/embedded/test_node_heartbeats.py shows it on virtual time
async def test_a_job_survives_a_cluster_that_is_stopped_for_a_minute() -> None:
    with an_ordinary_user() as user, cluster(user) as site:
        transport = create_transport(site.kubeconfig, None, SystemClock().now)
        async with a_scene(KubeClient(transport)) as scene:
            await scene.submit(job("t", {"worker": group(FOREVER, 2)}))
            await scene.until(lambda: scene.status("t").get("ready") == "2/2", "both run")
            before = {name: pod["metadata"]["uid"] for name, pod in scene.pods.items()}
            assert site.process is not None
            os.kill(site.process, signal.SIGSTOP)
            await asyncio.sleep(60)
            os.kill(site.process, signal.SIGCONT)
            await asyncio.sleep(20)  # longer than a lost node is tolerated
            assert scene.status("t")["phase"] == "Running"
            assert {name: pod["metadata"]["uid"] for name, pod in scene.pods.items()} == before
            events = await scene.client.list(EVENTS, scene.namespace)
            assert not [each for each in events.items if each["reason"] == "NodeNotReady"]
        await transport.aclose()
