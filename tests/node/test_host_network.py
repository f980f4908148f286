"""Pods that share this machine's network and files still find each other, the API and their volumes."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from pliant.embedded.kubelet.probes.handlers import run_container_command
from pliant.embedded.network.egress_connector import EgressPolicy
from pliant.errors import UnsupportedEnvironment
from pliant.kube.resources import CONFIG_MAPS, PODS, SERVICES
from tests.node.running import Running, is_running, running, state

pytestmark = pytest.mark.network("host")

SERVE = """
import os, socket
server = socket.create_server((os.environ["POD_IP"], 2222))
print("up", flush=True)
while True: server.accept()[0].send(os.environ["HOSTNAME"].encode())
"""
ASK = """
import json, os, socket, sys, time
peers = sys.argv[1:] + json.loads(os.environ["CONFIG"])["peers"]
for peer in peers:
    host, port = peer.split(":")
    assert host.startswith("127."), host
    for _ in range(200):
        try: print(socket.create_connection((host, int(port)), 5).recv(99).decode()); break
        except ConnectionRefusedError: time.sleep(0.02)
"""


@pytest.fixture
async def cluster(tmp_path: Path, network: str) -> AsyncIterator[Running]:
    async with running(tmp_path) as up:
        yield up


async def test_members_bind_one_port_and_are_found_before_they_come(cluster: Running) -> None:
    for name in ("worker-0", "worker-1"):
        await _service(cluster, name, {"clusterIP": "None"})
    env = [
        {"name": "CONFIG", "value": json.dumps({"peers": ["worker-1.default.svc.cluster.local:2222"]})},
        {"name": "FIRST", "value": "worker-0.default"},
    ]
    command = ["python3", "-c", ASK, "$(FIRST):2222", "worker-1.default:2222"]
    await cluster.pod("asker", [{"name": "main", "command": command, "env": env}])
    await cluster.until("asker", is_running)
    for name in ("worker-0", "worker-1"):
        await cluster.pod(name, [{"name": "main", "command": ["python3", "-c", SERVE]}], labels={"app": name})
    assert (await cluster.finished("asker"))["status"]["phase"] == "Succeeded", await cluster.output("asker")
    assert await cluster.output("asker") == "worker-0\nworker-1\nworker-1\n"


async def test_a_member_that_comes_back_has_its_address_again(cluster: Running) -> None:
    await cluster.sh("a", "sleep 60")
    await cluster.sh("b", "sleep 60")
    before = (await cluster.until("a", is_running))["status"]["podIP"]
    assert (await cluster.until("b", is_running))["status"]["podIP"] != before
    await cluster.client.delete(PODS, "default", "a", grace_period_seconds=0)
    await cluster.until_gone("a")
    await cluster.sh("a", "sleep 60")
    assert (await cluster.until("a", is_running))["status"]["podIP"] == before


async def test_names_are_known_when_a_cluster_comes_up_again(tmp_path: Path, network: str) -> None:
    main = {"name": "main", "command": ["sh", "-c", "echo $0; sleep 60", "late.default:1"]}
    async with running(tmp_path, durable=True) as cluster:
        await _service(cluster, "late", {"clusterIP": "None"})
        await cluster.pod("a", [main], restartPolicy="Always")
        await cluster.until_said("a", "127.")
    async with running(tmp_path, durable=True) as cluster:
        await cluster.until("a", lambda pod: is_running(pod) and "running" in state(pod))
        await cluster.until_said("a", "127.")


async def test_two_clusters_have_different_addresses(cluster: Running, tmp_path: Path) -> None:
    async with running(tmp_path / "second") as second:
        for each in (cluster, second):
            await each.sh("a", "sleep 60")
        addresses = {(await each.until("a", is_running))["status"]["podIP"] for each in (cluster, second)}
        assert len(addresses) == 2


async def test_a_service_leads_to_its_pods(cluster: Running) -> None:
    await _service(cluster, "web", {"ports": [{"port": 8080, "targetPort": 2222}]})
    await cluster.pod("web", [{"name": "main", "command": ["python3", "-c", SERVE]}], labels={"app": "web"})
    await cluster.until_said("web", "up")
    env = [{"name": "CONFIG", "value": '{"peers": ["web.default:8080"]}'}]
    await cluster.pod("asker", [{"name": "main", "command": ["python3", "-c", ASK], "env": env}])
    await cluster.finished("asker")
    assert await cluster.output("asker") == "web\n"


async def test_a_port_of_a_pod_is_reached_at_its_own_address(cluster: Running) -> None:
    pods = {}
    for name in ("a", "b"):
        await cluster.pod(name, [{"name": "main", "command": ["python3", "-c", SERVE]}])
        await cluster.until_said(name, "up")
        pods[name] = await cluster.client.get(PODS, "default", name)
    sessions = cluster.cluster.transport._api.session_source  # type: ignore[attr-defined]
    for name, pod in pods.items():
        reader, writer = await sessions.connect_to_port(pod, 2222)
        assert await reader.read(9) == name.encode()
        writer.close()


async def test_volumes_are_told_by_their_paths(cluster: Running) -> None:
    await _config(cluster, {"a.conf": "peer=job-0.default:1\n"})
    await _service(cluster, "job-0", {"clusterIP": "None"})
    mounts = [
        {"name": "code", "mountPath": "/etc/settings"},
        {"name": "scratch", "mountPath": "/scratch"},
        {"name": "memory", "mountPath": "/fast"},
    ]
    volumes = [
        {"name": "code", "configMap": {"name": "settings"}},
        {"name": "scratch", "emptyDir": {}},
        {"name": "memory", "emptyDir": {"medium": "Memory"}},
    ]
    script = "cat /etc/settings/a.conf; pwd > /scratch/x; cat $OUT/x; touch /fast/y; ls $PLIANT_MOUNT_FAST"
    main: dict[str, Any] = {
        "name": "main",
        "command": ["sh", "-ec", script],
        "env": [{"name": "OUT", "value": "/scratch"}],
        "workingDir": "/scratch",
        "volumeMounts": mounts,
    }
    await cluster.pod("a", [main], volumes=volumes)
    await cluster.finished("a")
    peer, folder, fast = (await cluster.output("a")).splitlines()
    assert peer.startswith("peer=127.")
    assert folder.endswith("/volumes/scratch")
    assert fast == "y"
    assert await cluster.warnings("a") == []


async def test_a_mount_that_no_words_name_is_told_of(cluster: Running) -> None:
    main = {"name": "main", "command": ["true"], "volumeMounts": [{"name": "data", "mountPath": "/data"}]}
    await cluster.pod("a", [main], volumes=[{"name": "data", "emptyDir": {}}])
    await cluster.finished("a")
    ((reason, message),) = await cluster.warnings("a")
    assert reason == "FailedMount"
    assert message == (
        "mountPath /data of container 'main' cannot be mounted in the host network mode: use the "
        "variable PLIANT_MOUNT_DATA, or name the path in `command`, `args` or `env`, where it is replaced"
    )


async def test_commands_in_a_container_are_told_the_same(cluster: Running) -> None:
    await _config(cluster, {"colour": "green"})
    await _service(cluster, "job-0", {"clusterIP": "None"})
    probe = {"exec": {"command": ["sh", "-c", "test $(cat /c/colour) = green && echo job-0.default | grep 127"]}}
    main = {
        "name": "main",
        "command": ["sh", "-c", "sleep 60; : /c"],
        "volumeMounts": [{"name": "c", "mountPath": "/c"}],
        "readinessProbe": {**probe, "periodSeconds": 1},
    }
    await cluster.pod("a", [main], volumes=[{"name": "c", "configMap": {"name": "settings"}}])

    def is_ready(pod: dict[str, Any]) -> bool:
        return any(each["type"] == "Ready" and each["status"] == "True" for each in pod["status"]["conditions"])

    await cluster.until("a", lambda pod: bool(pod["status"].get("conditions")) and is_ready(pod))


async def test_last_words_are_heard(cluster: Running) -> None:
    await cluster.sh("a", "echo tired > /dev/termination-log; exit 3")
    assert state(await cluster.finished("a"))["terminated"]["message"] == "tired\n"


async def test_a_pod_lists_pods_as_its_service_account(cluster: Running) -> None:
    await cluster.grant("default", "view")
    ask = (
        "import asyncio\nfrom datetime import UTC, datetime\nfrom pliant.kube.client import KubeClient\n"
        "from pliant.kube.client_config import create_transport\nfrom pliant.kube.resources import PODS\n"
        "async def main():\n"
        "    transport = create_transport(None, None, lambda: datetime.now(UTC))\n"
        "    found = await KubeClient(transport).list(PODS, 'default')\n"
        "    print(*(each['metadata']['name'] for each in found.items))\n"
        "    await transport.aclose()\n"
        "asyncio.run(main())\n"
    )
    packages = os.pathsep.join([str(Path(__file__).parents[2]), *sys.path[1:]])
    env = [{"name": "PYTHONPATH", "value": packages}]
    await cluster.pod("a", [{"name": "main", "command": [sys.executable, "-c", ask], "env": env}])
    await cluster.finished("a")
    assert await cluster.output("a") == "a\n"
    files = "ls $(dirname $KUBECONFIG); ls /var/run/secrets/kubernetes.io/serviceaccount"
    assert (await cluster.ran("b", files)).split() == ["ca.crt", "kubeconfig", "namespace", "token"] * 2
    assert await cluster.ran("c", "echo $KUBECONFIG", automountServiceAccountToken=False) == ""


async def test_keeping_pods_in_the_cluster_is_refused(tmp_path: Path, network: str) -> None:
    with pytest.raises(UnsupportedEnvironment, match="--no-egress cannot be enforced when pods use the host network"):
        async with running(tmp_path, egress=EgressPolicy(allow_external=False)):
            pytest.fail("it started all the same")


async def test_pods_go_out_by_the_proxies_of_this_machine(
    tmp_path: Path, network: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("https_proxy", "http://proxy.example:3128")
    async with running(tmp_path) as cluster:
        told = await cluster.ran("a", "echo $https_proxy $no_proxy; echo $http_proxy")
    assert told == "http://proxy.example:3128 localhost,127.0.0.0/8,::1"


async def test_a_session_ends_with_its_container(cluster: Running) -> None:
    await cluster.sh("a", "trap 'exit 0' TERM; echo up; sleep 60 & wait")
    await cluster.until_said("a", "up")
    agent = cluster.cluster.mode.agent
    pod = await cluster.client.get(PODS, "default", "a")
    session = asyncio.create_task(
        run_container_command(agent, (pod["metadata"]["uid"], "main/0"), ["sleep", "60"], timeout=None)
    )
    await asyncio.sleep(0.2)
    await cluster.client.delete(PODS, "default", "a")
    async with asyncio.timeout(10):
        assert (await session).exit_code == 137


async def _service(cluster: Running, name: str, spec: dict[str, Any]) -> None:
    body = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}}
    spec = {"selector": {"app": name}, "ports": [{"port": 2222}], **spec}
    await cluster.client.create(SERVICES, "default", {**body, "spec": spec})


async def _config(cluster: Running, data: dict[str, str]) -> None:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": data}
    await cluster.client.create(CONFIG_MAPS, "default", body)
