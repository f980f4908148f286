from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from pliant.errors import Forbidden, Gone, TooManyRequests, Unreachable
from pliant.kube.client import KubeClient
from pliant.kube.client_config import create_transport
from pliant.kube.resources import CONFIG_MAPS, NAMESPACES, SERVICE_ACCOUNTS
from pliant.runtime.clock import SystemClock
from tests.controlplane.cluster import API_SERVER, ControlPlane, started
from tests.controlplane.overload import overloaded
from tests.scenarios.host import expect_gone

pytestmark = pytest.mark.real


@asynccontextmanager
async def client_of(kubeconfig: Path) -> AsyncIterator[KubeClient]:
    transport = create_transport(kubeconfig, None, SystemClock().now)
    async with aclosing(transport):
        yield KubeClient(transport)


def config_map(name: str) -> dict[str, object]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"kept": "yes"}}


async def test_who_is_given_no_role_is_refused_by_name(plane: ControlPlane) -> None:
    async with client_of(plane.kubeconfig_for("eve")) as eve:
        with pytest.raises(Forbidden, match='User "eve" cannot list resource "configmaps"'):
            await eve.list(CONFIG_MAPS, "default")


async def test_a_certificate_that_is_over_lets_nobody_in(plane: ControlPlane) -> None:
    late = plane.kubeconfig_for("late", "system:masters", lifetime=timedelta(hours=-1))
    async with client_of(late) as client:
        with pytest.raises(Exception, match=r"Unauthorized|certificate"):
            await client.list(NAMESPACES)


async def test_service_accounts_have_real_tokens(plane: ControlPlane) -> None:
    async with client_of(plane.kubeconfig) as admin:
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        issued = await admin.create(SERVICE_ACCOUNTS, "default", request, subresource="token", name="default")
    async with client_of(plane.kubeconfig_with(issued["status"]["token"])) as account:
        with pytest.raises(Forbidden, match="system:serviceaccount:default:default"):
            await account.list(CONFIG_MAPS, "default")


async def test_a_restarted_server_is_at_the_same_address_with_the_same_objects(plane: ControlPlane) -> None:
    async with client_of(plane.kubeconfig) as admin:
        await admin.create(CONFIG_MAPS, "default", config_map("before"))
        plane.stop_apiserver()
        with pytest.raises(Unreachable):
            await admin.get(CONFIG_MAPS, "default", "before")
        plane.start_apiserver()
        found = await admin.get(CONFIG_MAPS, "default", "before")
        assert found["data"] == {"kept": "yes"}


async def test_versions_that_were_compacted_are_gone_after_a_restart(plane: ControlPlane) -> None:
    async with client_of(plane.kubeconfig) as admin:
        old = (await admin.list(CONFIG_MAPS, "default")).resource_version
        await admin.create(CONFIG_MAPS, "default", config_map("after"))
        plane.etcd.compact()
        plane.stop_apiserver()
        plane.start_apiserver()
        await admin.list(CONFIG_MAPS, "default")  # finds the old connection dead and makes a new one
        with pytest.raises(Gone):
            async for _ in admin.watch(CONFIG_MAPS, "default", resource_version=old):
                pass


async def test_an_overloaded_server_answers_429_and_recovers(plane: ControlPlane) -> None:
    async with client_of(plane.kubeconfig) as admin, client_of(plane.kubeconfig_for("busy")) as busy:
        async with overloaded(plane, admin, "busy"):
            with pytest.raises(TooManyRequests):
                await busy.list(CONFIG_MAPS, "default")
            assert await admin.list(CONFIG_MAPS, "default")
        with pytest.raises(Forbidden):
            await busy.list(CONFIG_MAPS, "default")


@pytest.mark.deep
async def test_two_control_planes_run_side_by_side(plane: ControlPlane) -> None:
    with started(controllers=False) as other:
        assert other.url != plane.url
        async with client_of(other.kubeconfig) as there, client_of(plane.kubeconfig) as here:
            await there.create(CONFIG_MAPS, "default", config_map("there"))
            names = [each["metadata"]["name"] for each in (await here.list(CONFIG_MAPS, "default")).items]
            assert "there" not in names
        server = other.processes.stop(API_SERVER, signal.SIGKILL)
        assert server == -signal.SIGKILL
        with pytest.raises(RuntimeError, match=f"{API_SERVER} did not come up"):
            other.start_apiserver("--no-such-flag")


@pytest.mark.deep
def test_the_command_starts_one_and_leaves_nothing(tmp_path: Path, plane: ControlPlane) -> None:
    environment = {**os.environ, "XDG_STATE_HOME": str(tmp_path), "TMPDIR": str(tmp_path)}

    def kube(*words: str) -> str:
        command = [sys.executable, "-m", "tests.controlplane", *words, "--name", "mine"]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=True)
        return done.stdout

    with subprocess.Popen(["sleep", "60"]) as owner:
        said = kube("up", "--owner", str(owner.pid))
        assert said.startswith("export KUBECONFIG=")
        assert said == kube("up"), "the second time it is up already"
        assert said in kube("env")
        runs = [int(path.name) for path in Path("/proc").glob("[0-9]*") if _mentions(path, str(tmp_path))]
        assert len(runs) >= 4
        owner.kill()
    expect_gone(runs)
    assert list(tmp_path.glob("pliant-kube-*")) == []
    assert "KUBECONFIG" not in kube("env")
    kube("down")


def _mentions(process: Path, word: str) -> bool:
    try:
        return word in (process / "cmdline").read_text()
    except OSError:
        return False
