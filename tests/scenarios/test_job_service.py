"""One service for all members of a job: two thousand have their names, though Endpoints stop at a thousand."""

from __future__ import annotations

import pytest

from pliant.kube.client import KubeClient
from pliant.kube.resources import ENDPOINT_SLICES, Resource
from tests.scenarios.kubeflow import members, on_paper, running

ENDPOINTS = Resource("", "v1", "endpoints", "Endpoints")
SIZE = 2000
PATIENCE = 240.0


async def named_hosts(client: KubeClient, namespace: str, service: str) -> set[str]:
    """The host names that the cluster's DNS has for a service."""
    slices = (await client.list(ENDPOINT_SLICES, namespace)).items
    own = [each for each in slices if each["metadata"]["labels"].get("kubernetes.io/service-name") == service]
    return {endpoint.get("hostname", "") for each in own for endpoint in each.get("endpoints") or ()}


@pytest.mark.deep
@pytest.mark.timeout(500)
async def test_each_of_two_thousand_members_has_a_name_in_the_service_of_its_job(client: KubeClient) -> None:
    async with on_paper(client) as (scene, nodes):
        workers = members(nodes, SIZE)
        workers["template"]["spec"] |= nodes.seat(lambda _: nodes.names[0])
        await scene.submit(scene.manifest("t", {"Worker": workers}))
        await scene.until(lambda: len(running(scene, "t")) == SIZE, "all running", PATIENCE)
        assert set(scene.services) == {"t", "t-worker-0"}
        names = {f"t-worker-{index}" for index in range(SIZE)}
        found: set[str] = set()
        for _ in range(60):
            found = await named_hosts(client, scene.namespace, "t")
            if found == names:
                break
            await scene.until(lambda: True, "a moment", 1)
        assert found == names
        listed = await client.get(ENDPOINTS, scene.namespace, "t")
        addresses = sum(len(subset.get("addresses") or ()) for subset in listed.get("subsets") or ())
        truncated = listed["metadata"].get("annotations", {}).get("endpoints.kubernetes.io/over-capacity")
        assert (addresses, truncated) in ((1000, "truncated"), (SIZE, None)), "Kubernetes truncates it, we may not"
