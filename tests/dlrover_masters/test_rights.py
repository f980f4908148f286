"""On a real control plane, where rights are checked, masters get along with those that the operator gives them."""

from __future__ import annotations

import asyncio
import os
import socket
from asyncio.subprocess import STDOUT, Process
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import yaml

from pliant.kube.client import KubeClient
from tests.controlplane.installed import kubectl
from tests.dlrover_masters.jobs import Master, allreduce
from tests.dlrover_masters.stage import LIST, SLOW, TICK, Stage, a_stage, master_pod
from tests.dlrover_masters.versions import RELEASES
from tests.scenarios.cluster import Site, an_ordinary_user, operator, real_cluster
from tests.scenarios.jobs import Manifest
from tests.scenarios.nodes import Ends, PaperNodes, paper_nodes

MASTERS = [Master(version, platform) for version in RELEASES for platform in ("pyk8s", "k8s")]
LOG = "master.log"
pytestmark = [pytest.mark.dlrover, pytest.mark.timeout(400)]


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    """A real control plane with an operator; its nodes are on paper."""
    with an_ordinary_user() as user, real_cluster(user) as found, operator(found, options=()) as process:
        process.start()
        yield found


@asynccontextmanager
async def started(master: Master, stage: Stage, site: Site, folder: Path) -> AsyncIterator[Process]:
    """The process of a master beside its pod on paper, let in by the account of that pod."""
    account = stage.pods[master_pod("t")]["spec"]["serviceAccountName"]
    token = kubectl(site.kubeconfig, "create", "token", account, "--namespace", stage.namespace)
    document = yaml.safe_load(site.kubeconfig.read_text())
    document["users"] = [{**each, "user": {"token": token.strip()}} for each in document["users"]]
    kubeconfig = folder / "kubeconfig"
    kubeconfig.write_text(yaml.safe_dump(document))
    places = {"KUBECONFIG": str(kubeconfig), "DLROVER_EVENT_FILE_DIR": str(folder), "POD_IP": "127.0.0.1"}
    command = master.group(stage.namespace, "t", 0)["template"]["spec"]["containers"][0]["command"]
    command[-1] = str(_free_port())  # others may run beside it
    with (folder / LOG).open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            *command, env={**os.environ, **places}, cwd=folder, stdout=log, stderr=STDOUT
        )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


@pytest.mark.parametrize("master", MASTERS, ids=str)
async def test_a_master_does_its_work_with_the_rights_it_is_given(
    client: KubeClient, site: Site, master: Master, tmp_path: Path
) -> None:
    async with a_stage(client, master) as stage, paper_nodes(stage) as nodes:
        await stage.submit(on_paper(allreduce(master, stage.namespace, "t"), nodes))
        await stage.until(lambda: stage.phase("t") == "Running", "a master on paper", SLOW)
        async with started(master, stage, site, tmp_path) as process:
            members = await stage.until_running("t", 2)
            await until_noticed(tmp_path / LOG, members)
            for member in members:
                nodes.order(member, Ends(0))
            async with asyncio.timeout(TICK + SLOW):
                assert await process.wait() == 0
        nodes.order(master_pod("t"), Ends(0))
        await stage.until_over("t")


async def until_noticed(log: Path, members: Iterable[str]) -> None:
    """Wait until a master knows of its members: it would wait for ever for one that ends before its watch begins."""
    async with asyncio.timeout(LIST + SLOW):
        while any(f"{member} status change" not in log.read_text(errors="replace") for member in members):  # noqa: ASYNC110 - a file
            await asyncio.sleep(0.5)


def on_paper(job: Manifest, nodes: PaperNodes) -> Manifest:
    """The same job, whose pods come to these nodes and keep nothing there: nobody would bind a claim."""
    spec = job["spec"]
    groups = {name: nodes.place(group) for name, group in spec["replicaSpecs"].items()}
    for pod in (group["template"]["spec"] for group in groups.values()):
        pod["volumes"] = pod["containers"][0]["volumeMounts"] = []
    return {**job, "spec": {**spec, "replicaSpecs": groups}}


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])
