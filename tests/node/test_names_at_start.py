"""The names of a pod, and of the members that exist beside it, resolve before its first instruction."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from pliant.embedded.network.egress_connector import EgressPolicy
from pliant.kube.resources import PODS
from tests.depth import IS_DEEP
from tests.node.running import Pod, Running, running
from tests.node.test_network_dns import service

STARTS, MEMBERS = (200 if IS_DEEP else 6), 5
ADDRESS = [{"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}]
OFFLINE = EgressPolicy(allow_external=False)
"""Names that are unknown fail without a question to other servers."""
HEADLESS = {"clusterIP": "None", "publishNotReadyAddresses": True}


async def test_a_pod_resolves_its_own_names_at_once(tmp_path: Path) -> None:
    names = ["one", "one.default", "one.default.svc.cluster.local", "one.ring.default.svc.cluster.local", "$POD_IP"]
    async with running(tmp_path, egress=OFFLINE, dns_delay=2.0) as cluster:
        await service(cluster, "one", {"name": "one"}, **HEADLESS)
        await service(cluster, "ring", {"app": "ring"}, **HEADLESS)
        script = " && ".join(f"getent hosts {name}" for name in names)
        await _start_member(cluster, "one", script)
        pod = await cluster.finished("one")
        printed = await cluster.output("one")
        assert pod["status"]["phase"] == "Succeeded", printed
        assert [line.split()[0] for line in printed.splitlines()] == [pod["status"]["podIP"]] * len(names)


async def test_a_pod_waits_for_the_address_of_a_member_that_is_being_started(tmp_path: Path) -> None:
    async with running(tmp_path, egress=OFFLINE, dns_delay=1.0) as cluster:
        await service(cluster, "ring", {"app": "ring"}, **HEADLESS)
        names = [f"{name}.ring.default.svc.cluster.local" for name in ("first", "second")]
        script = " && ".join(f"getent hosts {name}" for name in names) + " && sleep 2"
        for name in ("first", "second"):
            await _start_member(cluster, name, script)
        for name in ("first", "second"):
            assert (await cluster.finished(name))["status"]["phase"] == "Succeeded", await cluster.output(name)


async def test_the_name_of_a_pod_that_cannot_be_scheduled_fails_at_once(tmp_path: Path) -> None:
    async with running(tmp_path, egress=OFFLINE) as cluster:
        await service(cluster, "large", {"name": "large"}, **HEADLESS)
        resources = {"requests": {"cpu": "4000"}}
        container = {"name": "main", "command": ["true"], "resources": resources}
        await cluster.pod("large", [container], labels={"name": "large"})
        await cluster.until("large", _is_unschedulable)
        asked = "began=$(date +%s); getent hosts large && exit 1; echo $(($(date +%s) - began))"
        assert int(await cluster.ran("asker", asked)) < 2


@pytest.mark.timeout(1200)
async def test_every_member_of_every_start_resolves_its_names(tmp_path: Path) -> None:
    async with running(tmp_path, egress=OFFLINE) as cluster:
        await service(cluster, "ring", {"app": "ring"}, **HEADLESS)
        members = [f"member-{number}" for number in range(MEMBERS)]
        for name in members:
            await service(cluster, name, {"name": name}, **HEADLESS)
        failed = 0
        for _ in range(STARTS):
            async with asyncio.TaskGroup() as tasks:
                lives = [tasks.create_task(_live(cluster, name)) for name in members]
            failed += sum(life.result()["status"]["phase"] != "Succeeded" for life in lives)
        print(f"{STARTS} starts of {MEMBERS} members, {failed} failures")
        assert failed == 0


def _is_unschedulable(pod: Pod) -> bool:
    return any(each["status"] == "False" for each in pod["status"].get("conditions", ()))


async def _live(cluster: Running, name: str) -> Pod:
    own = (name, f"{name}.default", f"{name}.default.svc.cluster.local", f"{name}.ring", "$POD_IP")
    await _start_member(cluster, name, " && ".join(f"getent hosts {each}" for each in own))
    pod = await cluster.until(name, lambda pod: pod["status"].get("phase") in ("Succeeded", "Failed"), within=60)
    await cluster.client.delete(PODS, "default", name)
    await cluster.until_gone(name)
    return pod


async def _start_member(cluster: Running, name: str, script: str) -> None:
    container = {"name": "main", "command": ["sh", "-c", script], "env": ADDRESS}
    await cluster.pod(name, [container], labels={"name": name, "app": "ring"}, hostname=name, subdomain="ring")
