"""Operators of some kinds at a real cluster: `kubectl create -f manifests/`, and `pliant install --kinds`."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import pytest
import yaml

from pliant.kube.client import KubeClient
from pliant.kube.client_config import create_transport
from pliant.kube.resources import NODES
from pliant.runtime.clock import SystemClock
from tests.cli.ordinary_user import ROOT
from tests.controlplane.cluster import API_SERVER, CONTROLLERS, ETCD, SCHEDULER, ControlPlane, started
from tests.controlplane.deployed import run_deployed
from tests.controlplane.fixtures import require
from tests.controlplane.installed import KUBECTL, kubectl, may, printed, wait_served
from tests.controlplane.programs import find_programs
from tests.quickyaml import documents, without_definitions
from tests.scenarios.kubeflow import members, on_paper
from tests.scenarios.paper import PaperKubelet
from tests.scenarios.scene import PATIENCE

pytestmark = pytest.mark.real

SEED = ROOT / "tests" / "golden" / "paddle" / "seed.in.yaml"
OPERATOR = ROOT / "manifests" / "pliant-operator.yaml"
TORCH = ("--kinds", "pytorchjob", "--namespace", "torch-system")
NODE = "paper"


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    """A fresh control plane with two operators: that of manifests/, and one for PyTorchJobs alone."""
    require(ETCD, API_SERVER, CONTROLLERS, SCHEDULER, KUBECTL)
    with started(controllers=False) as up:
        created = shell(up.kubeconfig, "kubectl create -f manifests/").splitlines()
        assert [line.partition(".")[0].partition("/")[0] for line in created[:3]] == [
            "customresourcedefinition",
            "customresourcedefinition",
            "namespace",
        ]
        kubectl(up.kubeconfig, "apply", "--server-side", "-f", "-", stdin=printed("install", *TORCH))
        for name in ("paddlejobs.paddlepaddle.org", "pytorchjobs.kubeflow.org"):
            wait_served(up.kubeconfig, name)
        # Only now: the garbage collector looks for kinds when it starts, and then every 30 seconds.
        up.start_controllers()
        up.start_scheduler()
        yield up


@pytest.fixture
async def client(plane: ControlPlane) -> AsyncIterator[KubeClient]:
    async with aclosing(create_transport(plane.kubeconfig, None, SystemClock().now)) as transport:
        yield KubeClient(transport)


def shell(kubeconfig: Path, line: str, **variables: str) -> str:
    """What a line of a shell prints, typed in the folder of the clone; its failure fails the test."""
    tools = find_programs([KUBECTL])[KUBECTL].parent
    env = {**os.environ, "KUBECONFIG": str(kubeconfig), "PATH": f"{tools}:{os.environ['PATH']}", **variables}
    done = subprocess.run(
        ["bash", "-c", line], cwd=ROOT, env=env, capture_output=True, text=True, check=False, timeout=PATIENCE
    )
    assert done.returncode == 0, f"{line}: {done.stdout}{done.stderr}"
    return done.stdout


@asynccontextmanager
async def node_for(client: KubeClient, namespace: str) -> AsyncIterator[None]:
    """A node that any pod may come to; the pods of the namespace run there, on paper."""
    await client.create(NODES, None, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}})
    has = {"cpu": "64", "memory": "256Gi", "pods": "110"}
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
    status = {"capacity": has, "allocatable": has, "conditions": [ready]}
    await client.patch(NODES, None, NODE, {"status": status}, subresource="status")
    kubelet = PaperKubelet(client, namespace)
    running = asyncio.create_task(kubelet.run())
    try:
        await kubelet.wait_synced()
        kubelet.serve(NODE)
        yield
    finally:
        running.cancel()
        await asyncio.wait([running])
        await client.delete(NODES, None, NODE)


async def test_the_readme_of_paddlejobs_can_be_typed_as_it_stands(
    plane: ControlPlane, client: KubeClient, tmp_path: Path
) -> None:
    mine = tmp_path / "mine"
    mine.write_bytes(plane.kubeconfig.read_bytes())
    mine.chmod(0o600)

    async def typed(line: str) -> str:
        return await asyncio.to_thread(shell, mine, line, JOB_NAME="paddlejob")

    await typed("kubectl create namespace testspace")
    await typed("kubectl config set-context --current --namespace=testspace")
    with run_deployed(plane.kubeconfig, tmp_path, documents(OPERATOR.read_text())) as operator:
        async with node_for(client, "testspace"):
            assert await typed(f"kubectl create -f {SEED}") == "paddlejob.paddlepaddle.org/paddlejob created\n"
            await typed(f"kubectl wait --for=create --timeout={PATIENCE}s pod/paddlejob-trainer-1")
            await typed(
                f"kubectl wait --for=jsonpath={{.status.phase}}=running --timeout={PATIENCE}s paddlejob/paddlejob"
            )
            listed = (await typed("kubectl get pods -l paddle-job-name=${JOB_NAME}")).splitlines()
            assert {line.split()[0] for line in listed[1:]} >= {
                f"paddlejob-{role}-{index}" for role in ("pserver", "trainer") for index in (0, 1)
            }
            shown = yaml.safe_load(await typed("kubectl get -o yaml PaddleJob ${JOB_NAME}"))
            assert (shown["apiVersion"], shown["kind"]) == ("paddlepaddle.org/v1", "PaddleJob")
            assert shown["status"]["phase"] in ("running", "scaling")
            await typed("kubectl delete PaddleJob ${JOB_NAME}")
            await typed(f"kubectl wait --for=delete --timeout={PATIENCE}s pod -l paddle-job-name=paddlejob")
        assert "✓ permissions" in await asyncio.to_thread(operator.doctor, "--kinds", "paddle")
        assert operator.complaints == []


async def test_an_operator_with_the_rights_for_one_kind_runs_jobs_of_that_kind(
    plane: ControlPlane, client: KubeClient, tmp_path: Path
) -> None:
    objects = list(without_definitions(printed("install", *TORCH)))
    with run_deployed(plane.kubeconfig, tmp_path, objects, "torch-system") as operator:
        async with on_paper(client) as (scene, nodes):
            await scene.submit(scene.manifest("t", {"Master": members(nodes), "Worker": members(nodes, 2)}))
            await scene.until(lambda: scene.phase("t") == "Running", "the job running")
            assert len(scene.pods) == 3
        words = ("--kinds", "pytorchjob", "--lease-namespace", "torch-system")
        assert "✓ permissions" in await asyncio.to_thread(operator.doctor, *words)
        assert operator.complaints == []
        assert not may(operator.kubeconfig, "list", "paddlejobs.paddlepaddle.org", "--all-namespaces")
        assert not may(operator.kubeconfig, "create", "serviceaccounts", "--namespace", "default")
        assert not may(operator.kubeconfig, "create", "roles", "--namespace", "default")
