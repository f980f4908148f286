"""An autoscaler that may not see the cluster says so, and leaves everything as it is."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from pliant.controllers.autoscale.options import AutoscaleOptions
from pliant.controllers.operator import Operator
from pliant.controllers.telemetry import OperatorTelemetry
from pliant.kube.client import KubeClient
from pliant.kube.transport.base import Reply, Request, Transport
from tests.controllers.autoscaling import QUICK, Stage, seconds, staged
from tests.virtual_time import VirtualClock, on_virtual_time


class Guarded:
    """A server that keeps some collections to itself."""

    def __init__(self, inner: Transport, *hidden: str) -> None:
        self._inner = inner
        self._hidden = hidden

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def send(self, request: Request) -> Reply:
        if request.path in self._hidden and request.query.get("labelSelector") is None:
            body = b'{"kind":"Status","status":"Failure","reason":"Forbidden","code":403,"message":"no right"}'
            return Reply(status=403, body=body)
        return await self._inner.send(request)


async def begin(stage: Stage, *hidden: str, namespaces: tuple[str, ...] = ()) -> None:
    """Have an operator at work that may not see some of the cluster."""
    client = KubeClient(Guarded(stage.client._transport, *hidden))
    stage.operator = Operator(client, VirtualClock(), autoscale_options=QUICK, namespaces=namespaces)
    stage.tasks.append(asyncio.create_task(stage.operator.run()))
    await stage.operator.wait_ready()
    await stage.submit("demo")
    await seconds(10)


@pytest.mark.parametrize(
    ("hidden", "namespaces", "why"),
    [
        (("/api/v1/nodes",), (), "the operator cannot list nodes"),
        (("/api/v1/pods",), (), "the operator cannot list pods in all namespaces"),
        ((), ("default",), "the operator watches some namespaces only, while pods of others use the same nodes"),
    ],
)
@on_virtual_time
async def test_what_is_missing_is_told_in_the_status_and_sizes_stay(
    hidden: tuple[str, ...], namespaces: tuple[str, ...], why: str
) -> None:
    async with staged(options=None) as stage:
        await stage.stop()
        await begin(stage, *hidden, namespaces=namespaces)
        told = await stage.scaling("demo")
        assert (told["size"], told["recommendationMessage"]) == (2, f"the autoscaler is disabled: {why}")
        await stage.submit("later")
        await seconds(10)
        assert (await stage.scaling("later"))["recommendationMessage"] == f"the autoscaler is disabled: {why}"


@on_virtual_time
async def test_an_operator_that_shall_not_says_so_and_leaves_sizes_as_they_are() -> None:
    async with staged() as stage:
        await stage.submit("demo")
        await seconds(10)
        await stage.restart(AutoscaleOptions(policy=""))
        await seconds(10)
        told = await stage.scaling("demo")
        assert (told["size"], told["requestedBy"]) == (6, "autoscaler")
        assert (
            told["recommendationMessage"] == "the autoscaler is disabled: the operator was started with --autoscale off"
        )
        assert stage.operator.autoscaler is not None
        assert stage.operator.autoscaler.cluster_informers.pods.list_count == 0


@on_virtual_time
async def test_without_quotas_in_sight_sizes_are_planned_all_the_same() -> None:
    async with staged(options=None) as stage:
        await stage.stop()
        await begin(stage, "/api/v1/resourcequotas")
        assert await stage.size("demo") == 6


@on_virtual_time
async def test_what_the_autoscaler_does_can_be_measured() -> None:
    async with staged() as stage:
        await stage.submit("demo")
        await seconds(60)
        telemetry = OperatorTelemetry()
        telemetry.operator = stage.operator
        lines = telemetry.http_pages["/metrics"]().text.splitlines()
        assert "pliant_autoscaler_jobs 1" in lines
        assert 'pliant_autoscaler_resizes_total{reason="ScaleUp"} 1' in lines
        assert f"pliant_autoscaler_plan_seconds_count {stage.rounds()}" in lines
        assert 'pliant_informer_objects{resource="pods (all namespaces)"} 6' in lines
