"""Accounts that jobs name for their masters, where rights are checked: the operator gives them none."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import AsyncIterator, Iterator

import pytest

from pliant.controllers.operator import Operator
from pliant.controllers.rbac.master_access import ROLE_BINDINGS_RESOURCE
from pliant.frontends.elasticjob.job import ElasticJobFrontend
from pliant.kube.client import KubeClient
from pliant.kube.client_config import create_transport
from pliant.model.english import render
from pliant.model.messages import Message, MessageReason
from pliant.runtime.clock import SystemClock
from tests.builders import KEY_SECRET
from tests.controllers.operated import operating
from tests.controlplane.installed import kubectl, may
from tests.frontends.elasticjob import raw_ej, role
from tests.scenarios.cluster import Site, an_ordinary_user, real_cluster
from tests.scenarios.elastic import ElasticScene, master
from tests.scenarios.messages import text_of
from tests.scenarios.scene import fresh_name, played

pytestmark = pytest.mark.real


@pytest.fixture
def site() -> Iterator[Site]:
    with an_ordinary_user() as user, real_cluster(user) as found:
        yield found


@pytest.fixture
async def client(site: Site) -> AsyncIterator[KubeClient]:
    transport = create_transport(site.kubeconfig, None, SystemClock().now)
    yield KubeClient(transport)
    await transport.aclose()


@pytest.fixture
async def operator_client(site: Site) -> AsyncIterator[KubeClient]:
    """What an operator has that may do what `pliant install` allows it."""
    transport = create_transport(site.way_in, None, SystemClock().now)
    yield KubeClient(transport)
    await transport.aclose()


def lacking(scene: ElasticScene) -> list[Message]:
    return [each for each in scene.message("named").details if each.reason == MessageReason.MASTER_ACCESS_MISSING]


async def test_a_job_that_names_an_account_gives_it_nothing_and_starts_once_its_author_has(
    site: Site, client: KubeClient, operator_client: KubeClient
) -> None:
    operator = Operator(operator_client, SystemClock(), frontends=[ElasticJobFrontend()], key_secret=KEY_SECRET)
    async with operating(operator), played(ElasticScene(client, fresh_name())) as scene:
        pod = {"serviceAccountName": "default", "containers": [{"name": "main"}]}
        job = raw_ej(replicaSpecs={"worker": role(1), "dlrover-master": {"template": {"spec": pod}}})
        job["metadata"] = {"name": "named"}
        await scene.submit(job)
        [missing] = await scene.until(lambda: lacking(scene), "what it lacks")
        for needed in ("create list watch scaleplans.elastic.iml.github.io", "create get update configmaps"):
            assert needed in text_of(missing, "missing")
        assert (await client.list(ROLE_BINDINGS_RESOURCE, scene.namespace)).items == []
        default = f"system:serviceaccount:{scene.namespace}:default"
        words = ("list", "pods", "--namespace", scene.namespace, "--as", default)
        assert not await asyncio.to_thread(may, site.kubeconfig, *words)
        [_, command, _] = render(missing).split("`")
        await asyncio.to_thread(kubectl, site.kubeconfig, *shlex.split(command)[1:])
        assert await asyncio.to_thread(may, site.kubeconfig, *words)
        await scene.until(lambda: master("named") in scene.pods, "its master")
