"""Configuration that is mounted follows the objects it is made of."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from pliant.kube.resources import CONFIG_MAPS, SECRETS
from tests.node.running import Running, is_running, running

WATCH = (
    "until test $(cat /config/colour) = green; do sleep 0.05; done; "
    "until ! test -e /config/old; do sleep 0.05; done; "
    "until test $(cat /secret/word) = after; do sleep 0.05; done; ls /config; cat /sub"
)


@pytest.fixture
async def cluster(tmp_path: Path, network: str) -> AsyncIterator[Running]:
    async with running(tmp_path) as up:
        yield up


async def test_a_pod_sees_changes_of_what_it_has_mounted(cluster: Running, network: str) -> None:
    config = {"metadata": {"name": "config"}, "data": {"colour": "red", "old": "x"}}
    await cluster.client.create(CONFIG_MAPS, "default", {"apiVersion": "v1", "kind": "ConfigMap", **config})
    secret = {"metadata": {"name": "secret"}, "stringData": {"word": "before"}}
    await cluster.client.create(SECRETS, "default", {"apiVersion": "v1", "kind": "Secret", **secret})
    mounts = [
        {"name": "config", "mountPath": "/config"},
        {"name": "secret", "mountPath": "/secret"},
        {"name": "config", "mountPath": "/sub", "subPath": "colour"},
    ]
    sources = [{"secret": {"name": "secret"}}]
    volumes = [
        {"name": "config", "configMap": {"name": "config"}},
        {"name": "secret", "projected": {"sources": sources}},
    ]
    main: dict[str, Any] = {"name": "main", "command": ["sh", "-c", WATCH], "volumeMounts": mounts}
    await cluster.pod("a", [main], volumes=volumes)
    await cluster.until("a", is_running)
    change = {"data": {"colour": "green", "new": "y", "old": None}}
    await cluster.client.patch(CONFIG_MAPS, "default", "config", change)
    await cluster.client.patch(SECRETS, "default", "secret", {"stringData": {"word": "after"}})
    async with asyncio.timeout(10):
        await cluster.finished("a")
    # A sub-path that is mounted stays as it was; without mounts it is the file itself.
    sub = {"private": "red", "host": "green"}[network]
    assert (await cluster.output("a")).splitlines() == ["colour", "new", sub]


async def test_a_pod_keeps_what_it_has_when_the_object_goes(cluster: Running) -> None:
    config = {"metadata": {"name": "config"}, "data": {"colour": "red"}}
    await cluster.client.create(CONFIG_MAPS, "default", {"apiVersion": "v1", "kind": "ConfigMap", **config})
    volumes = [{"name": "config", "configMap": {"name": "config"}}]
    main = {
        "name": "main",
        "command": ["sh", "-c", "sleep 1; cat /config/colour"],
        "volumeMounts": [{"name": "config", "mountPath": "/config"}],
    }
    await cluster.pod("a", [main], volumes=volumes)
    await cluster.until("a", is_running)
    await cluster.client.delete(CONFIG_MAPS, "default", "config")
    await cluster.finished("a")
    assert await cluster.output("a") == "red"
