"""Every path that is written or read for a pod stays below its root, whatever links the pod has put in its way."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from pliant.embedded.agent.container.config import Mount
from pliant.embedded.agent.isolation.rootfs import open_beneath
from pliant.embedded.apiserver.auth.tokens import TokenIssuer
from pliant.embedded.kubelet.environment.pod_network import PrivatePodNetworkSetup
from pliant.embedded.kubelet.environment.variables import CONFIG_MAP_KIND, ResolvedPod, UnsupportedPodSpec
from pliant.embedded.kubelet.logs.log_files import create_message_mount, read_termination_message
from pliant.embedded.kubelet.logs.pod_logs import FileWatcher, PodLogStore
from pliant.embedded.kubelet.runtime.messages import AgentRequestFailed
from pliant.embedded.kubelet.volumes.pod_credentials import PodCredentials
from pliant.embedded.kubelet.volumes.pod_filesystem import PodFilesystem
from pliant.embedded.kubelet.volumes.pod_volumes import PreparedVolume, container_volume_mounts
from pliant.runtime.clock import SystemClock
from tests.node.conftest import ONLY_PRIVATE, Node

SECRET = "a secret of the user"


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    """A file outside every volume."""
    path = tmp_path / "outside" / "secret"
    path.parent.mkdir()
    path.write_text(SECRET)
    return path


def resolved(*volumes: dict[str, Any], data: dict[str, bytes] | None = None) -> ResolvedPod:
    metadata = {"name": "p", "namespace": "default", "uid": "u"}
    pod = {"metadata": metadata, "spec": {"containers": [{"name": "main"}], "volumes": list(volumes)}}
    config_data = {(CONFIG_MAP_KIND, "c"): data or {}}
    return ResolvedPod(pod=pod, address="10.88.0.2", host_address="", node_capacity={}, config_data=config_data)


def filesystem(data: Path, credentials: PodCredentials | None = None) -> PodFilesystem:
    network = PrivatePodNetworkSetup("10.88.0.1", data, lambda namespace: {}, lambda pod: {})
    return PodFilesystem(
        data_dir=data, default_working_dir=data / "work", base_env={}, pod_network=network, credentials=credentials
    )


def sub_path_mount(volume: Path, sub_path: str) -> Mount:
    container = {"volumeMounts": [{"name": "v", "mountPath": "/v", "subPath": sub_path}]}
    [mount] = container_volume_mounts(container, {"v": PreparedVolume(path=volume)}, {})
    return mount


def test_a_sub_path_through_a_link_out_of_the_volume_is_refused(tmp_path: Path, secret: Path) -> None:
    volume = tmp_path / "volume"
    volume.mkdir()
    (volume / "link").symlink_to(secret.parent)
    for sub_path in ("link", "link/new"):
        with pytest.raises(UnsupportedPodSpec, match="outside its volume"):
            sub_path_mount(volume, sub_path)
    assert [path.name for path in secret.parent.iterdir()] == ["secret"]


@ONLY_PRIVATE
async def test_a_sub_path_that_becomes_a_link_before_it_is_mounted_is_not_followed(agent: Node) -> None:
    volume, outside = agent.data / "volume", agent.data / "outside"
    for folder in (volume / "a" / "b", outside / "b"):
        folder.mkdir(parents=True)
    (outside / "b" / "secret").write_text(SECRET)
    (volume / "a" / "b" / "mine").write_text("mine")
    mount = sub_path_mount(volume, "a/b")
    assert await agent.sh("cat /v/mine", mounts=[mount]) == "mine"
    (volume / "a").rename(volume / "old")
    (volume / "a").symlink_to(outside)  # as another container of the pod may do at any time
    command = agent.command("ls", "/v", mounts=[mount])
    with pytest.raises(AgentRequestFailed, match="leads outside its volume"):
        await agent.agent.start_container("pod", "late", command)


@ONLY_PRIVATE
async def test_a_sub_path_in_memory_does_not_follow_a_link_either(agent: Node) -> None:
    outside = agent.data / "outside"
    outside.mkdir()
    whole = Mount(target="/v", memory_name="volume-v", readonly=False, pod_owned=True)
    await agent.sh(f"ln -s {outside} /v/link", mounts=[whole])
    part = Mount(target="/v", memory_name="volume-v/link/new", readonly=False, pod_owned=True)
    with pytest.raises(AgentRequestFailed, match="leads outside its volume"):
        await agent.agent.start_container("pod", "late", agent.command("true", mounts=[part]))
    assert list(outside.iterdir()) == []


def test_no_part_of_a_path_below_its_root_is_a_link(tmp_path: Path, secret: Path) -> None:
    (tmp_path / "link").symlink_to(secret)
    for path in ("link", "link/x", "../x"):
        with pytest.raises(OSError, match=r"link|leads outside|Not a directory"):
            open_beneath(str(secret.parent if path == "../x" else tmp_path), path)


def test_a_termination_message_is_not_read_through_a_link(tmp_path: Path, secret: Path) -> None:
    log = tmp_path / "0.log"
    log.with_suffix(".end").symlink_to(secret)
    assert read_termination_message({}, log, has_failed=True) == ""


def test_a_pipe_in_place_of_the_termination_message_delays_nothing(tmp_path: Path) -> None:
    log = tmp_path / "0.log"
    os.mkfifo(log.with_suffix(".end"))
    assert read_termination_message({}, log, has_failed=True) == ""


def test_the_message_file_of_the_next_run_is_not_created_through_a_link(tmp_path: Path, secret: Path) -> None:
    (tmp_path / "1.end").symlink_to(secret)
    mode = secret.stat().st_mode
    create_message_mount({}, tmp_path / "1.log")
    assert (secret.read_text(), secret.stat().st_mode) == (SECRET, mode)
    assert (tmp_path / "1.end").read_text() == ""


@pytest.mark.parametrize("swapped", ["u/logs/main/0.log", "u/logs/main", "u/logs"])
async def test_a_log_is_not_created_through_a_link(tmp_path: Path, secret: Path, swapped: str) -> None:
    pods = tmp_path / "pods"
    link = pods / swapped
    link.parent.mkdir(parents=True)
    link.symlink_to(secret if swapped.endswith(".log") else secret.parent)
    with closing(FileWatcher()) as watcher, pytest.raises(OSError, match=link.name):
        PodLogStore(pods, watcher).create_run_log("u", "main", 0)
    assert secret.read_text() == SECRET
    assert [path.name for path in secret.parent.iterdir()] == ["secret"]


@pytest.mark.parametrize("name", ["hosts", "hostname", "resolv.conf"])
def test_network_files_replace_links(tmp_path: Path, secret: Path, name: str) -> None:
    pod_dir = tmp_path / "pods" / "u"
    pod_dir.mkdir(parents=True)
    (pod_dir / name).symlink_to(secret)
    filesystem(tmp_path).write_pod_files(resolved().pod, "p", "10.88.0.2")
    assert secret.read_text() == SECRET
    assert not (pod_dir / name).is_symlink()


@pytest.mark.parametrize(
    "source",
    [
        {"emptyDir": {}},
        {"configMap": {"name": "c"}},
        {"downwardAPI": {"items": [{"path": "name", "fieldRef": {"fieldPath": "metadata.name"}}]}},
        {"projected": {"sources": [{"configMap": {"name": "c"}}]}},
    ],
    ids=lambda source: next(iter(source)),
)
def test_a_volume_is_not_created_through_a_link(tmp_path: Path, secret: Path, source: dict[str, Any]) -> None:
    volumes = tmp_path / "pods" / "u" / "volumes"
    volumes.mkdir(parents=True)
    (volumes / "v").symlink_to(secret.parent)
    with pytest.raises(OSError, match="v"):
        filesystem(tmp_path).prepare_volumes(resolved({"name": "v", **source}, data={"secret": b"theirs"}))
    assert secret.read_text() == SECRET


@pytest.mark.parametrize("kind", ["DirectoryOrCreate", "FileOrCreate"])
def test_a_host_path_is_not_created_outside_the_workspace(tmp_path: Path, secret: Path, kind: str) -> None:
    workspace = tmp_path / "work"
    workspace.mkdir()
    (workspace / "link").symlink_to(secret.parent)
    for path in (workspace / "link" / "new", workspace / ".." / "new"):
        with pytest.raises(UnsupportedPodSpec, match="is not allowed"):
            filesystem(tmp_path).prepare_volumes(resolved({"name": "v", "hostPath": {"path": str(path), "type": kind}}))
    filesystem(tmp_path).prepare_volumes(
        resolved({"name": "v", "hostPath": {"path": str(workspace / "a" / "b"), "type": kind}})
    )
    assert (workspace / "a" / "b").is_dir() is (kind == "DirectoryOrCreate")
    assert [path.name for path in secret.parent.iterdir()] == ["secret"]


async def test_a_refresh_of_a_projected_volume_keeps_its_tokens(tmp_path: Path) -> None:
    sources = [{"configMap": {"name": "c"}}, {"serviceAccountToken": {"path": "deep/token"}}]
    volume = {"name": "v", "projected": {"sources": sources}}
    with closing(PodCredentials(TokenIssuer(clock := SystemClock()), b"certificate", clock)) as credentials:
        files = filesystem(tmp_path, credentials)
        files.prepare_volumes(resolved(volume, data={"key": b"old", "gone": b""}))
        folder = tmp_path / "pods" / "u" / "volumes" / "v"
        token = (folder / "deep" / "token").read_text()
        files.refresh_config_volumes(resolved(volume, data={"key": b"new"}))
    assert (folder / "key").read_text() == "new"
    assert not (folder / "gone").exists()
    assert (folder / "deep" / "token").read_text() == token
