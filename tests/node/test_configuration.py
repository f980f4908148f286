"""Pods find their variables and volumes, and wait for those that are not there yet."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from pliant.kube.resources import CONFIG_MAPS, PODS, SECRETS
from tests.node.conftest import ONLY_PRIVATE
from tests.node.running import Running, running, state


@pytest.fixture
async def cluster(tmp_path: Path, network: str) -> AsyncIterator[Running]:
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    async with running(tmp_path, workspace) as up:
        yield up


async def test_variables_come_from_values_fields_and_objects(cluster: Running) -> None:
    await _config_map(cluster, "settings", {"depth": "3", "width": "4"})
    await _secret(cluster, "token", {"key": b"s3cret"})
    env = [
        {"name": "NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        {"name": "ADDRESS", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
        {"name": "DEPTH", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "depth"}}},
        {"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "token", "key": "key"}}},
        {"name": "BOTH", "value": "$(NAME)/$(DEPTH)/$(UNKNOWN)/$$(NAME)"},
    ]
    from_objects = [{"configMapRef": {"name": "settings"}, "prefix": "SET_"}]
    command = ["sh", "-c", "echo $NAME $ADDRESS $KEY $SET_width; echo $0", "$(BOTH)"]
    await cluster.pod("a", [{"name": "main", "command": command, "env": env, "envFrom": from_objects}])
    pod = await cluster.finished("a")
    assert await cluster.output("a") == f"a {pod['status']['podIP']} s3cret 4\na/3/$(UNKNOWN)/$(NAME)\n"


async def test_volumes_show_configuration(cluster: Running) -> None:
    await _config_map(cluster, "settings", {"a.conf": "one\n", "b.conf": "two\n"})
    await _secret(cluster, "token", {"key": b"s3cret"})
    labels = {"fieldPath": "metadata.labels"}
    volumes = [
        {"name": "all", "configMap": {"name": "settings"}},
        {"name": "some", "configMap": {"name": "settings", "items": [{"key": "b.conf", "path": "deep/b"}]}},
        {"name": "token", "secret": {"secretName": "token", "defaultMode": 0o400}},
        {"name": "about", "downwardAPI": {"items": [{"path": "labels", "fieldRef": labels}]}},
    ]
    mounts = [
        {"name": "all", "mountPath": "/etc/all"},
        {"name": "some", "mountPath": "/some"},
        {"name": "token", "mountPath": "/token"},
        {"name": "about", "mountPath": "/etc/podinfo"},
        {"name": "all", "mountPath": "/one.conf", "subPath": "a.conf"},
    ]
    script = "cat /etc/all/* /some/deep/b /token/key /etc/podinfo/labels /one.conf; stat -c ' %a' /token/key"
    container = {"name": "main", "command": ["sh", "-ec", script], "volumeMounts": mounts}
    await cluster.pod("a", [container], volumes=volumes, labels={"team": "x"})
    assert (await cluster.finished("a"))["status"]["phase"] == "Succeeded"
    assert (await cluster.output("a")).startswith('one\ntwo\ntwo\ns3cretteam="x"one\n 400\n')


@ONLY_PRIVATE
async def test_configuration_cannot_be_written_to(cluster: Running) -> None:
    await _config_map(cluster, "settings", {"a.conf": "one\n"})
    mounts = [{"name": "all", "mountPath": "/all"}]
    container = {"name": "main", "command": ["sh", "-ec", "! touch /all/x"], "volumeMounts": mounts}
    await cluster.pod("a", [container], volumes=[{"name": "all", "configMap": {"name": "settings"}}])
    assert (await cluster.finished("a"))["status"]["phase"] == "Succeeded"


async def test_a_pod_waits_for_a_volume_that_is_missing(cluster: Running) -> None:
    await cluster.pod(
        "a",
        [{"name": "main", "command": ["cat", "/c/k"], "volumeMounts": [{"name": "c", "mountPath": "/c"}]}],
        volumes=[{"name": "c", "configMap": {"name": "late"}}],
    )
    message = 'MountVolume.SetUp failed for volume "c" : configmap "late" not found'
    assert await cluster.warned("a") == ("FailedMount", message)
    await _config_map(cluster, "late", {"k": "here"})
    await cluster.finished("a")
    assert await cluster.output("a") == "here"


async def test_a_pod_waits_for_a_variable_that_is_missing(cluster: Running) -> None:
    env = [{"name": "K", "valueFrom": {"configMapKeyRef": {"name": "late", "key": "k"}}}]
    await cluster.pod("a", [{"name": "main", "command": ["sh", "-c", "echo $K"], "env": env}])
    await _config_map(cluster, "late", {"other": "x"})
    pod = await cluster.until("a", lambda pod: "couldn't find key" in str(state(pod)))
    assert state(pod)["waiting"]["reason"] == "CreateContainerConfigError"
    await cluster.client.patch(CONFIG_MAPS, "default", "late", {"data": {"k": "here"}})
    await cluster.finished("a")
    assert await cluster.output("a") == "here\n"


async def test_a_pod_that_waits_can_be_deleted(cluster: Running) -> None:
    env = [{"name": "K", "valueFrom": {"secretKeyRef": {"name": "never", "key": "k"}}}]
    await cluster.pod("a", [{"name": "main", "command": ["true"], "env": env}])
    await cluster.until("a", lambda pod: "not found" in str(state(pod)))
    await cluster.client.delete(PODS, "default", "a")
    await cluster.until_gone("a")


async def test_containers_start_in_the_workspace(cluster: Running, tmp_path: Path) -> None:
    assert await cluster.ran("a", "pwd") == str(tmp_path / "workspace")


async def test_a_host_path_under_the_workspace_is_shown(cluster: Running, tmp_path: Path) -> None:
    folder = tmp_path / "workspace" / "data"
    volumes = [{"name": "data", "hostPath": {"path": str(folder), "type": "DirectoryOrCreate"}}]
    mounts = [{"name": "data", "mountPath": "/data"}]
    await cluster.pod("a", [{"name": "main", "command": ["touch", "/data/x"], "volumeMounts": mounts}], volumes=volumes)
    await cluster.finished("a")
    assert (folder / "x").exists()


async def test_a_host_path_elsewhere_is_refused(cluster: Running) -> None:
    volumes = [{"name": "data", "hostPath": {"path": "/etc"}}]
    await cluster.sh("a", "true", volumes=volumes)
    pod = await cluster.until("a", lambda pod: "message" in state(pod).get("waiting", {}))
    assert "hostPath /etc is not allowed: use a path inside" in state(pod)["waiting"]["message"]


async def test_a_volume_of_another_kind_is_refused(cluster: Running) -> None:
    volumes = [{"name": "data", "nfs": {"server": "far", "path": "/big"}}]
    await cluster.sh("a", "true", volumes=volumes)
    pod = await cluster.until("a", lambda pod: "message" in state(pod).get("waiting", {}))
    assert "nfs is not supported: use emptyDir" in state(pod)["waiting"]["message"]


async def _config_map(cluster: Running, name: str, data: dict[str, str]) -> None:
    body: dict[str, Any] = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}
    await cluster.client.create(CONFIG_MAPS, "default", body)


async def _secret(cluster: Running, name: str, data: dict[str, bytes]) -> None:
    encoded = {key: base64.b64encode(value).decode() for key, value in data.items()}
    body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "data": encoded}
    await cluster.client.create(SECRETS, "default", body)
