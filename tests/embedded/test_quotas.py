"""LimitRanges and ResourceQuotas limit what is created, and the usage of quotas follows the objects."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from pliant.embedded.apiserver.quota.limit_ranger import LimitRanger
from pliant.embedded.apiserver.quota.quota_admission import QuotaAdmission
from pliant.errors import Forbidden
from pliant.kube.resources import PODS, RESOURCE_QUOTAS
from tests.controlplane.quota_answers import answer_case, recorded_answers
from tests.controlplane.quota_cases import CASES, Case, container, limit_range, pod, quota
from tests.differential.steps import TABLE
from tests.embedded.serving import WIDGETS, Served, create_widget_crd, serving, widget
from tests.virtual_time import on_virtual_time

QUOTAS = "/api/v1/namespaces/default/resourcequotas"


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.title)
@on_virtual_time
async def test_requests_are_answered_as_by_kube_apiserver(case: Case) -> None:
    async with serving() as server:
        assert await answer_case(server.transport, case, "space") == recorded_answers(case)


@on_virtual_time
async def test_simultaneous_creates_do_not_exceed_a_quota() -> None:
    async with serving() as server:
        await create_quota(server, {"pods": "3"})
        names = [f"pod-{number}" for number in range(10)]
        created = await asyncio.gather(
            *(server.client.create(PODS, "default", pod(name)) for name in names), return_exceptions=True
        )
        assert sum(not isinstance(each, BaseException) for each in created) == 3
        assert all(isinstance(each, dict | Forbidden) for each in created)
        assert await usage(server) == {"pods": "3"}


@on_virtual_time
async def test_deleted_and_finished_pods_free_a_quota() -> None:
    async with serving() as server:
        await create_quota(server, {"pods": "2", "requests.cpu": "2", "count/pods": "5"})
        for name in ("a", "b"):
            await server.client.create(PODS, "default", pod(name, container(cpu="1")))
        await server.client.patch(PODS, "default", "a", {"status": {"phase": "Succeeded"}}, subresource="status")
        await asyncio.sleep(1)
        assert await usage(server) == {"pods": "1", "requests.cpu": "1", "count/pods": "2"}
        await server.client.delete(PODS, "default", "b")
        await asyncio.sleep(1)
        assert await usage(server) == {"pods": "0", "requests.cpu": "0", "count/pods": "1"}
        await server.client.create(PODS, "default", pod("c", container(cpu="1500m")))
        assert await usage(server) == {"pods": "1", "requests.cpu": "1500m", "count/pods": "2"}


@on_virtual_time
async def test_a_pod_that_is_never_gone_frees_a_quota_after_its_grace_period() -> None:
    async with serving() as server:
        await create_quota(server, {"pods": "1", "count/pods": "5"})
        await server.client.create(PODS, "default", pod("a", nodeName="lost", terminationGracePeriodSeconds=30))
        await server.client.delete(PODS, "default", "a")
        for seconds, pods in ((59, "1"), (2, "0")):
            server.clock.advance(seconds)
            await asyncio.sleep(62)
            assert await usage(server) == {"pods": pods, "count/pods": "1"}
        await server.client.create(PODS, "default", pod("b"))


@on_virtual_time
async def test_a_quota_counts_what_exists_and_follows_its_spec() -> None:
    async with serving() as server:
        await server.client.create(PODS, "default", pod("a", container(cpu="1")))
        await create_quota(server, {"pods": "1"})
        assert await usage(server) == {"pods": "1"}
        with pytest.raises(Forbidden, match="exceeded quota: quota, requested: pods=1, used: pods=1, limited: pods=1"):
            await server.client.create(PODS, "default", pod("b"))
        await server.client.patch(RESOURCE_QUOTAS, "default", "quota", {"spec": {"hard": {"pods": "2", "cpu": "4"}}})
        await asyncio.sleep(1)
        assert await usage(server) == {"pods": "1", "cpu": "1"}
        await server.client.create(PODS, "default", pod("b", container(cpu="1")))
        assert await usage(server) == {"pods": "2", "cpu": "2"}


@on_virtual_time
async def test_custom_resources_are_counted() -> None:
    async with serving() as server:
        await create_quota(server, {"count/widgets.example.org": "1", "count/unknown.example.org": "1"})
        assert await usage(server) == {}
        await create_widget_crd(server)
        await asyncio.sleep(1)
        assert await usage(server) == {"count/widgets.example.org": "0"}
        await server.client.create(WIDGETS, "default", widget("a"))
        await server.client.patch(WIDGETS, "default", "a", {"spec": {"size": 2}})
        with pytest.raises(Forbidden, match=r'widgets\.example\.org "b" is forbidden: exceeded quota: quota, '):
            await server.client.create(WIDGETS, "default", widget("b"))
        await server.client.delete(WIDGETS, "default", "a")
        await asyncio.sleep(1)
        assert await usage(server) == {"count/widgets.example.org": "0"}


@on_virtual_time
async def test_nothing_is_written_while_no_usage_changes() -> None:
    async with serving() as server:
        await create_quota(server, {"pods": "3", "services": "1"})
        await server.client.create(PODS, "default", pod("a"))
        await asyncio.sleep(1)
        version = server.api.store.committed.version
        await asyncio.sleep(3600)
        assert server.api.store.committed.version == version
        await server.client.patch(PODS, "default", "a", {"metadata": {"labels": {"a": "b"}}})
        await asyncio.sleep(1)
        assert server.api.store.committed.version == version + 1


@on_virtual_time
async def test_quotas_of_other_namespaces_do_not_matter() -> None:
    async with serving() as server:
        await server.call("POST", "/api/v1/namespaces", {"metadata": {"name": "other"}})
        await create_quota(server, {"pods": "0"})
        await server.call("POST", "/api/v1/namespaces/default/limitranges", limit_range({"type": "Pod"}))
        reply, _ = await server.call("POST", "/api/v1/namespaces/other/pods", pod("a"))
        assert reply.status == 201
        kind, transaction = server.api.registry.find_kind("v1", "Pod"), server.api.store.read_only_transaction()
        assert kind is not None
        for plugin in (LimitRanger(), QuotaAdmission()):
            assert not plugin.is_active(transaction, kind, "other")
            assert plugin.is_active(transaction, kind, "default")


@on_virtual_time
async def test_quotas_are_printed_as_by_kubectl() -> None:
    async with serving() as server:
        await create_quota(server, {"pods": "2", "limits.cpu": "4000m", "requests.cpu": "0.5"})
        _, table = await server.call("GET", QUOTAS, accept=TABLE)
        assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Request", "Limit", "Age"]
        assert table["rows"][0]["cells"][:3] == ["quota", "pods: 0/2, requests.cpu: 0/500m", "limits.cpu: 0/4"]


async def create_quota(server: Served, hard: dict[str, str]) -> None:
    """Create a quota and wait until it is in effect."""
    await server.client.create(RESOURCE_QUOTAS, "default", quota(hard))
    await asyncio.sleep(1)


async def usage(server: Served) -> Any:
    """Return what the quota has counted."""
    return (await server.client.get(RESOURCE_QUOTAS, "default", "quota"))["status"]["used"]
