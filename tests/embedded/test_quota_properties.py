"""Requests with any quotas, limits and debug containers are answered; usage is what the objects add up to."""

from __future__ import annotations

import asyncio
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from pliant.errors import ApiError
from pliant.kube.resources import PODS, RESOURCE_QUOTAS
from pliant.kube.transport.base import MERGE_PATCH, STRATEGIC_MERGE_PATCH
from tests.controlplane.quota_cases import container, limit_range, pod, quota
from tests.embedded.serving import Served, serving
from tests.embedded.test_api_properties import JSONS, value_paths, with_value_at
from tests.virtual_time import run

CORE = "/api/v1/namespaces/default"
LIMITS = limit_range(
    {"type": "Container", "max": {"cpu": "2"}, "min": {"cpu": "1m"}, "default": {"memory": "1Gi"}},
    {"type": "Pod", "maxLimitRequestRatio": {"cpu": "2"}},
)
SCOPE = {"scopeName": "PriorityClass", "operator": "In", "values": ["a"]}
QUOTA = quota(
    {"pods": "9", "requests.cpu": "9"}, scopes=["NotTerminating"], scopeSelector={"matchExpressions": [SCOPE]}
)
DEBUG = {
    "metadata": {"name": "p"},
    "spec": {
        "ephemeralContainers": [
            {"name": "d", "image": "x", "targetContainerName": "main", "volumeMounts": [], "env": [], "stdin": True}
        ]
    },
}
STEPS = st.lists(
    st.tuples(st.sampled_from(["create", "finish", "delete", "label"]), st.integers(0, 3), st.sampled_from("123")),
    max_size=20,
)


@given(data=st.data(), good=st.sampled_from([LIMITS, QUOTA]))
def test_limits_with_anything_anywhere_are_kept_or_refused(data: st.DataObject, good: dict[str, Any]) -> None:
    bad = with_value_at(good, data.draw(st.sampled_from(value_paths(good))), data.draw(JSONS))
    plural = f"{good['kind'].lower()}s"

    async def scenario() -> None:
        async with serving() as server:
            reply, _ = await server.call("POST", f"{CORE}/{plural}", bad)
            assert reply.status in (201, 400, 404, 422), reply.body
            await asyncio.sleep(1)
            for name, each in (("p", container(cpu="1", limits={"cpu": "1"})), ("q", container())):
                reply, _ = await server.call("POST", f"{CORE}/pods", pod(name, each))
                assert reply.status in (201, 403), reply.body

    run(scenario())


@given(data=st.data(), media=st.sampled_from([MERGE_PATCH, STRATEGIC_MERGE_PATCH, ""]))
def test_any_debug_container_is_added_or_refused(data: st.DataObject, media: str) -> None:
    patch = with_value_at(DEBUG, data.draw(st.sampled_from(value_paths(DEBUG))), data.draw(JSONS))

    async def scenario() -> None:
        async with serving() as server:
            await server.client.create(PODS, "default", pod("p"))
            path = f"{CORE}/pods/p/ephemeralcontainers"
            if media:
                reply, _ = await server.call("PATCH", path, patch, media=media)
            else:
                reply, _ = await server.call("PUT", path, patch)
            assert reply.status in (200, 400, 409, 422), reply.body
            reply, _ = await server.call("GET", path)
            assert reply.status == 200

    run(scenario())


@given(steps=STEPS)
def test_the_usage_is_what_the_pods_add_up_to(steps: list[tuple[str, int, str]]) -> None:
    async def scenario() -> None:
        async with serving() as server:
            await server.client.create(RESOURCE_QUOTAS, "default", quota({"pods": "3", "cpu": "5", "count/pods": "4"}))
            await asyncio.sleep(1)
            outcomes = await asyncio.gather(*(do(server, *step) for step in steps), return_exceptions=True)
            assert all(each is None or isinstance(each, ApiError) for each in outcomes), outcomes
            await asyncio.sleep(1)
            stored = (await server.client.list(PODS, "default")).items
            active = [each for each in stored if each["status"]["phase"] == "Pending"]
            cpu = sum(int(each["spec"]["containers"][0]["resources"]["requests"]["cpu"]) for each in active)
            used = (await server.client.get(RESOURCE_QUOTAS, "default", "quota"))["status"]["used"]
            assert used == {"pods": str(len(active)), "cpu": str(cpu), "count/pods": str(len(stored))}
            assert len(active) <= 3
            assert cpu <= 5

    run(scenario())


async def do(server: Served, what: str, number: int, cpu: str) -> None:
    name, client = f"p{number}", server.client
    if what == "create":
        await client.create(PODS, "default", pod(name, container(cpu=cpu)))
    elif what == "delete":
        await client.delete(PODS, "default", name)
    elif what == "label":
        await client.patch(PODS, "default", name, {"metadata": {"labels": {"a": cpu}}})
    else:
        await client.patch(PODS, "default", name, {"status": {"phase": "Failed"}}, subresource="status")
