from __future__ import annotations

from datetime import timedelta

from pliant.cli.cluster.apply import install_crds
from pliant.cli.cluster.job_lookup import JobObject, parse_job_object
from pliant.cli.cluster.target import ClusterTarget
from pliant.cli.cluster.waiting import wait_for_job
from pliant.cli.input.yaml_reader import parse_documents
from pliant.controllers.job import resource_of
from pliant.frontends import FRONTENDS
from pliant.kube.client import KubeClient
from tests.cli.toy_node import JOB
from tests.embedded.serving import serving

[AITJ, *_] = FRONTENDS.values()


async def submit(client: KubeClient) -> JobObject:
    [written] = parse_documents("job.yaml", JOB.encode())
    return parse_job_object(AITJ, await client.create(resource_of(AITJ), "default", written.value))


async def test_a_new_job_of_the_same_name_is_not_the_one_that_is_waited_for() -> None:
    async with serving() as served:
        await install_crds(served.client)
        first = await submit(served.client)
        await served.client.delete(resource_of(AITJ), "default", "demo")
        await submit(served.client)
        target = ClusterTarget(served.client, "default", "default")
        limit = timedelta(seconds=5)
        assert await wait_for_job(target, first, lambda latest: latest is None, limit, "gone") is None
