"""Stock kubectl against the embedded server: the verbs people use."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from pliant.embedded.apiserver.http.in_process_transport import InProcessTransport
from pliant.embedded.apiserver.server import ApiServer
from pliant.embedded.apiserver.streaming.logs import LogOptions
from pliant.embedded.registry.kind_registry import KindRegistry
from pliant.embedded.storage.store import Store
from pliant.kube.client import KubeClient
from pliant.kube.resources import PODS
from pliant.runtime.clock import SystemClock
from tests.embedded.serving import reachable, widget, widget_crd
from tests.kubectl import find_kubectl

POD = """
apiVersion: v1
kind: Pod
metadata: {name: p, labels: {tier: x}}
spec:
  containers: [{name: main, image: none, command: [sleep, "5"]}]
---
apiVersion: v1
kind: Service
metadata: {name: s}
spec: {selector: {tier: x}, ports: [{port: 80}]}
"""


class FakeLogSource:
    """A node whose containers all said the same."""

    async def read_container_log(
        self, pod: dict[str, Any], container: str, options: LogOptions
    ) -> AsyncIterator[bytes]:
        yield b"step 1\n"
        if options.follow:
            await asyncio.sleep(0.05)
        yield b"step 2\n"


class Kubectl:
    """Runs kubectl with a cache and credentials of its own."""

    def __init__(self, program: str, kubeconfig: Path, folder: Path, client: KubeClient) -> None:
        self._command = (program, "--kubeconfig", str(kubeconfig), "--cache-dir", str(folder / "cache"))
        self._folder = folder
        self.client = client

    async def __call__(self, *words: str, stdin: str = "", fails: bool = False) -> str:
        process = await self._start(*words)
        async with asyncio.timeout(20):
            said = (await process.communicate(stdin.encode()))[0].decode()
        assert (process.returncode != 0) is fails, f"kubectl {' '.join(words)}: {said}"
        return said

    @asynccontextmanager
    async def following(self, *words: str) -> AsyncIterator[Callable[[], Awaitable[list[str]]]]:
        """Reads line by line, as words, while kubectl goes on."""
        process = await self._start(*words)
        said = process.stdout
        assert said is not None

        async def line() -> list[str]:
            async with asyncio.timeout(20):
                return (await said.readline()).decode().split()

        try:
            yield line
        finally:
            process.kill()
            await process.communicate()

    async def _start(self, *words: str) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            *self._command,
            *words,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env={"PATH": os.environ["PATH"], "HOME": str(self._folder)},
        )


@pytest.fixture
async def kubectl(tmp_path: Path) -> AsyncIterator[Kubectl]:
    program = find_kubectl()
    clock = SystemClock()
    async with ApiServer.start(
        Store.in_memory(), KindRegistry.with_builtin_kinds(), clock, log_source=FakeLogSource()
    ) as api:
        client = KubeClient(InProcessTransport(api))
        async with reachable(api, tmp_path) as at:
            yield Kubectl(program, at.kubeconfig, tmp_path, client)


def manifest(*objects: dict[str, Any]) -> str:
    return "\n---\n".join(msgspec.json.encode(obj).decode() for obj in objects)


async def apply_widget(kubectl: Kubectl, **spec: Any) -> None:
    await kubectl("apply", "-f", "-", stdin=manifest(widget_crd()))
    await kubectl("wait", "--for=condition=Established", "crd/widgets.example.org", "--timeout=10s")
    await kubectl("apply", "-f", "-", stdin=manifest(widget("w", **spec)))


async def running_pod(kubectl: Kubectl) -> None:
    await kubectl("apply", "-f", "-", stdin=POD)
    bind = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "p"}, "target": {"name": "n"}}
    await kubectl.client.create(PODS, "default", bind, subresource="binding", name="p")
    main = {"name": "main", "ready": True, "restartCount": 0, "image": "none", "imageID": ""}
    main["state"] = {"running": {"startedAt": "2030-01-01T00:00:00Z"}}
    status = {"phase": "Running", "podIP": "10.1.0.2", "containerStatuses": [main]}
    await kubectl.client.patch(PODS, "default", "p", {"status": status}, subresource="status")


async def test_apply_creates_then_changes_then_leaves_alone(kubectl: Kubectl) -> None:
    await apply_widget(kubectl, size=2)
    assert "widget.example.org/w unchanged" in await kubectl("apply", "-f", "-", stdin=manifest(widget("w", size=2)))
    assert "widget.example.org/w configured" in await kubectl("apply", "-f", "-", stdin=manifest(widget("w", size=3)))
    assert await kubectl("get", "wd", "w", "-o", "jsonpath={.spec.size}") == "3"
    assert "pod/p created" in await kubectl("apply", "-f", "-", stdin=POD)
    assert "service/s unchanged" in await kubectl("apply", "-f", "-", stdin=POD)


async def test_apply_names_the_field_that_is_wrong(kubectl: Kubectl) -> None:
    await apply_widget(kubectl)
    said = await kubectl("apply", "-f", "-", stdin=manifest(widget("w2", sizee=2)), fails=True)
    assert 'strict decoding error: unknown field "spec.sizee"' in said
    said = await kubectl("apply", "-f", "-", stdin=manifest(widget("w2", colour="blue")), fails=True)
    assert 'The Widget "w2" is invalid: spec.colour: Unsupported value: "blue"' in said


async def test_get_prints_tables_yaml_and_wide(kubectl: Kubectl) -> None:
    await apply_widget(kubectl, size=2)
    await running_pod(kubectl)
    assert (await kubectl("get", "widgets")).split() == ["NAME", "SIZE", "w", "2"]
    assert "size: 2" in await kubectl("get", "wd", "w", "-o", "yaml")
    wide = (await kubectl("get", "pods", "-o", "wide")).splitlines()
    assert wide[0].split()[:7] == ["NAME", "READY", "STATUS", "RESTARTS", "AGE", "IP", "NODE"]
    assert wide[1].split()[:4] == ["p", "1/1", "Running", "0"]
    assert wide[1].split()[5:7] == ["10.1.0.2", "n"]
    assert "namespace/kube-system" in await kubectl("get", "ns,pods", "-A", "-o", "name")


async def test_get_follows_changes(kubectl: Kubectl) -> None:
    await kubectl("apply", "-f", "-", stdin=POD)
    async with kubectl.following("get", "pods", "-w") as line:
        assert (await line())[:3] == ["NAME", "READY", "STATUS"]
        assert (await line())[:3] == ["p", "0/1", "Pending"]
        await running_pod(kubectl)
        while (seen := (await line())[:3]) != ["p", "1/1", "Running"]:
            assert seen == ["p", "0/1", "Pending"]


async def test_describe_tells_the_story(kubectl: Kubectl) -> None:
    await apply_widget(kubectl, size=2)
    await running_pod(kubectl)
    assert "Size:  2" in await kubectl("describe", "wd", "w")
    said = await kubectl("describe", "pod", "p")
    assert "Status:           Running" in said
    assert "Selector:" in await kubectl("describe", "svc", "s")


async def test_quotas_are_created_and_described(kubectl: Kubectl) -> None:
    await kubectl("create", "quota", "q", "--hard=pods=1,count/widgets.example.org=2,limits.cpu=4")
    limits = {"type": "Container", "default": {"cpu": "500m"}, "max": {"cpu": "2"}}
    limit_range = {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "l"}, "spec": {"limits": [limits]}}
    await kubectl("create", "-f", "-", stdin=manifest(limit_range))
    await kubectl("wait", "quota/q", "--for=jsonpath={.status.used.pods}=0", "--timeout=10s")
    await kubectl("run", "p", "--image=none", "--command", "--", "true")
    said = await kubectl("run", "p2", "--image=none", "--command", "--", "true", fails=True)
    assert "exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1" in said
    rows = [line.split() for line in (await kubectl("describe", "quota", "q")).splitlines()]
    assert ["limits.cpu", "500m", "4"] in rows
    rows = [line.split() for line in (await kubectl("describe", "namespace", "default")).splitlines()]
    assert ["pods", "1", "1"] in rows
    assert ["Container", "cpu", "-", "2", "500m", "500m", "-"] in rows
    await kubectl("create", "quota", "q2", "--hard=pods=1", "--scopes=BestEffort")
    assert "BestEffort" in await kubectl("describe", "quota", "q2")


async def test_logs_stream(kubectl: Kubectl) -> None:
    await kubectl("apply", "-f", "-", stdin=POD)
    assert "does not have a host assigned" in await kubectl("logs", "p", fails=True)
    await running_pod(kubectl)
    assert await kubectl("logs", "p") == "step 1\nstep 2\n"
    assert await kubectl("logs", "-f", "p", "-c", "main") == "step 1\nstep 2\n"
    assert "container other is not valid" in await kubectl("logs", "p", "-c", "other", fails=True)


async def test_scale_label_patch_and_wait(kubectl: Kubectl) -> None:
    await apply_widget(kubectl, size=2)
    waiting = asyncio.create_task(kubectl("wait", "--for=jsonpath={.status.phase}=On", "wd/w", "--timeout=10s"))
    assert "scaled" in await kubectl("scale", "wd/w", "--replicas=5")
    await kubectl("label", "wd", "w", "tier=x")
    await kubectl("patch", "wd", "w", "--type=merge", "-p", '{"spec":{"colour":"red"}}')
    json_patch = '[{"op":"add","path":"/metadata/annotations/x","value":"y"}]'
    await kubectl("patch", "wd", "w", "--type=json", "-p", json_patch)
    status = '{"status":{"phase":"On"}}'
    await kubectl("patch", "wd", "w", "--subresource=status", "--type=merge", "-p", status)
    assert "condition met" in await waiting
    shown = await kubectl("get", "wd", "-l", "tier=x", "-o", "jsonpath={.items[0].spec}")
    assert msgspec.json.decode(shown) == {"colour": "red", "size": 5}


async def test_delete_waits_until_the_object_is_gone(kubectl: Kubectl) -> None:
    await apply_widget(kubectl)
    await kubectl("patch", "wd", "w", "--type=merge", "-p", '{"metadata":{"finalizers":["test/hold"]}}')
    deleting = asyncio.create_task(kubectl("delete", "wd", "w"))
    await kubectl("wait", "--for=jsonpath={.metadata.deletionTimestamp}", "wd/w", "--timeout=10s")
    await kubectl("patch", "wd", "w", "--type=merge", "-p", '{"metadata":{"finalizers":null}}')
    assert 'widget.example.org "w" deleted' in await deleting
    assert "not found" in await kubectl("get", "wd", "w", fails=True)


async def test_deleting_a_namespace_takes_its_content(kubectl: Kubectl) -> None:
    await kubectl("apply", "-f", "-", stdin='{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"team"}}')
    await kubectl("apply", "-n", "team", "-f", "-", stdin=POD)
    await kubectl("delete", "ns", "team")
    assert "No resources found" in await kubectl("get", "pods", "-n", "team")


async def test_create_sends_protobuf_and_is_understood(kubectl: Kubectl) -> None:
    await kubectl("create", "ns", "team")
    await kubectl("create", "cm", "c", "-n", "team", "--from-literal=a=b", "--from-literal=k=" + "v" * 300)
    await kubectl("create", "secret", "generic", "s", "-n", "team", "--from-literal=word=hush")
    await kubectl("create", "sa", "robot", "-n", "team")
    data = msgspec.json.decode(await kubectl("get", "cm", "c", "-n", "team", "-o", "jsonpath={.data}"))
    assert data == {"a": "b", "k": "v" * 300}
    assert await kubectl("get", "secret", "s", "-n", "team", "-o", "jsonpath={.data.word}") == "aHVzaA=="
    await kubectl("create", "service", "clusterip", "s", "-n", "team", "--tcp=80")
    assert await kubectl("get", "service", "s", "-n", "team", "-o", "jsonpath={.spec.ports[0].targetPort}") == "80"


async def test_explain_and_questions_about_oneself(kubectl: Kubectl) -> None:
    await apply_widget(kubectl)
    assert "size\t<integer>" in await kubectl("explain", "wd.spec")
    assert "widgets" in await kubectl("api-resources")
    assert (await kubectl("auth", "can-i", "create", "pods")).strip() == "yes"
    assert "kubernetes-admin" in await kubectl("auth", "whoami")
