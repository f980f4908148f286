"""Logs of deleted pods stay as long as the controller of the pods, within limits."""

from __future__ import annotations

import asyncio
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from pliant.embedded.apiserver.streaming.logs import LogOptions
from pliant.embedded.kubelet.logs import retained_logs
from pliant.embedded.kubelet.logs.pod_logs import FileWatcher, PodLogStore
from pliant.embedded.kubelet.logs.retained_logs import RetainedLogStore
from pliant.embedded.storage.store import Store, Transaction
from pliant.errors import NotFound
from pliant.kube.resources import CONFIG_MAPS, PODS
from tests.embedded.serving import config, owner_reference
from tests.node.conftest import Network
from tests.node.running import Running, eventually, running

OWNER: dict[str, Any] = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "job", "uid": "job"}}
LOGS = "/api/v1/nodes/node-0/proxy/logs/pods/"


class Place:
    """A store with one owner, `job`, and the folders of its pods."""

    def __init__(self, folder: Path, store: Store) -> None:
        self.folder = folder
        self.store = store
        self.pod_logs = PodLogStore(folder / "pods", FileWatcher())
        self.retained = RetainedLogStore(folder / "retained", store, self.pod_logs)

    async def put(self, obj: dict[str, Any], resource: str) -> None:
        await self.store.run_transaction(lambda transaction: transaction.put(resource, obj))

    async def lose(self, name: str, uid: str, text: str = "hello\n") -> None:
        """Let a pod of the owner write a log and be deleted."""
        owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "job", "uid": "job", "controller": True}
        meta = {"name": name, "namespace": "default", "uid": uid, "ownerReferences": [owner]}
        spec = {"nodeName": "node-0", "containers": [{"name": "main", "env": [{"name": "TOKEN", "value": "secret"}]}]}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}
        log = self.pod_logs.create_run_log(uid, "main", 0)
        log.write_text(text)
        self.pod_logs.mark_log_complete(log)

        def create_and_delete(transaction: Transaction) -> None:
            transaction.put("/pods", pod)
            transaction.remove("/pods", pod)

        await self.store.run_transaction(create_and_delete)
        await self.retained.retain(uid, self.pod_logs.logs_dir(uid))

    async def pods(self) -> list[str]:
        return await self.retained.list_directory(()) or []

    async def read(self, *path: str) -> str:
        chunks = self.retained.read_file(path, LogOptions())
        assert chunks is not None
        return b"".join([chunk async for chunk in chunks]).decode()


@pytest.fixture
async def place(tmp_path: Path) -> Place:
    made = Place(tmp_path, Store.in_memory())
    await made.put(deepcopy(OWNER), "/configmaps")
    return made


async def test_of_one_name_the_latest_attempts_are_kept(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retained_logs, "MAX_RETAINED_PODS_PER_NAME", 2)
    for uid in ("1", "2", "3"):
        await place.lose("worker-0", uid)
    await place.lose("worker-1", "4")
    assert await place.pods() == ["default_worker-0_2/", "default_worker-0_3/", "default_worker-1_4/"]


async def test_the_oldest_logs_make_room(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retained_logs, "MAX_RETAINED_BYTES", 300_000)
    for number in range(4):
        await place.lose(f"worker-{number}", str(number), "x" * 100_000)
    assert await place.pods() == ["default_worker-2_2/", "default_worker-3_3/"]
    assert len(list(place.folder.glob("retained/*/*"))) == 2


async def test_logs_survive_a_restart_and_end_with_their_owner(place: Place) -> None:
    await place.lose("worker-0", "1")
    again = Place(place.folder, place.store)
    await again.retained.load()
    assert await again.read("default_worker-0_1", "main", "0.log") == "hello\n"
    collecting = asyncio.create_task(again.retained.run())
    await place.store.run_transaction(lambda transaction: transaction.remove("/configmaps", deepcopy(OWNER)))
    await eventually(lambda: not list(place.folder.glob("retained/*")), what="the logs are deleted")
    assert await again.pods() == []
    await again.lose("worker-1", "2")
    assert await again.pods() == []
    collecting.cancel()


async def test_logs_without_an_owner_are_deleted_at_the_next_start(tmp_path: Path) -> None:
    before = Place(tmp_path, Store.in_memory())
    await before.put(deepcopy(OWNER), "/configmaps")
    await before.lose("worker-0", "1")
    after = Place(tmp_path, Store.in_memory())
    await after.retained.load()
    assert await after.pods() == []
    assert not list(tmp_path.glob("retained/*"))


async def test_only_logs_are_kept_and_no_link_is_followed(place: Place, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("a secret of the user")
    logs = place.pod_logs.create_run_log("1", "main", 0).parent
    (logs / "1.log").symlink_to(secret)
    (logs / "notes").write_text("x")
    (logs.parent / "other").symlink_to(tmp_path)
    await place.lose("worker-0", "1")
    assert await place.retained.list_directory(["default_worker-0_1"]) == ["main/", "pod.json"]
    assert await place.retained.list_directory(["default_worker-0_1", "main"]) == ["0.log"]
    for path in (["..", "secret"], ["default_worker-0_1", "..", "pod.json"], ["default_worker-0_1", "main", "1.log"]):
        assert place.retained.read_file(path, LogOptions()) is None
    assert "secret" not in await place.read("default_worker-0_1", "pod.json")
    kept = tmp_path / "retained" / "job" / "default_worker-0_1" / "main"
    assert [path.name for path in kept.iterdir()] == ["0.log"]


async def test_the_log_of_a_deleted_pod_is_read_through_its_node(data: Path, network: Network) -> None:
    async with running(data) as cluster:
        owner = await cluster.client.create(CONFIG_MAPS, "default", config("job"))
        spec = {
            "restartPolicy": "Never",
            "containers": [{"name": "main", "image": "x", "command": ["sh", "-c", "seq 3"]}],
        }
        metadata = {"name": "worker-0", "ownerReferences": [owner_reference(owner, controller=True)]}
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
        pod = await cluster.client.create(PODS, "default", body)
        await cluster.finished("worker-0")
        await cluster.client.delete(PODS, "default", "worker-0", grace_period_seconds=0)
        directory = f"default_worker-0_{pod['metadata']['uid']}"
        await eventually(lambda: bool(list(data.glob(f"cluster/retained-logs/*/{directory}"))), what="the log is kept")
        assert directory in (await cluster.client.get_raw(LOGS, accept="*/*")).decode()
        assert await cluster.client.get_raw(f"{LOGS}{directory}/main/0.log?tailLines=2") == b"2\n3\n"
        await cluster.client.delete(CONFIG_MAPS, "default", "job")
        await _until_gone(cluster, f"{LOGS}{directory}/")


async def _until_gone(cluster: Running, path: str) -> None:
    for _ in range(500):
        try:
            await cluster.client.get_raw(path, accept="*/*")
        except NotFound:
            return
        await asyncio.sleep(0.01)
    raise AssertionError("never deleted")
