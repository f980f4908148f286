"""The program of our master, beside its pod on paper, with the rights that the operator gave to its account."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from asyncio.subprocess import PIPE, STDOUT, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import yaml

from pliant.frameworks.master_keys import KEY_VARIABLES
from pliant.kube.client import KubeClient
from pliant.kube.resources import SERVICE_ACCOUNTS
from pliant.model.messages import MessageReason, message
from tests.scenarios.cluster import Site
from tests.scenarios.elastic import ElasticScene, elastic_scene, job, master
from tests.scenarios.nodes import Ends

pytestmark = pytest.mark.on_real

NAME = "led"


@asynccontextmanager
async def program(scene: ElasticScene, site: Site, folder: Path) -> AsyncIterator[Process]:
    """The master at work; it is killed at the end unless it has ended."""
    pod = scene.pods[master(NAME)]["spec"]
    account, variables = pod["serviceAccountName"], pod["containers"][0]["env"]
    keys = {each["name"]: each["value"] for each in variables if each["name"] in KEY_VARIABLES.values()}
    asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    answer = await scene.client.create(SERVICE_ACCOUNTS, scene.namespace, asked, subresource="token", name=account)
    document = yaml.safe_load(site.kubeconfig.read_text())
    document["users"] = [{**each, "user": {"token": answer["status"]["token"]}} for each in document["users"]]
    kubeconfig = folder / "kubeconfig"
    kubeconfig.write_text(yaml.safe_dump(document))
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    words = ("-m", "pliant.master", "--namespace", scene.namespace, "--job_name", NAME, "--port", port)
    process = await asyncio.create_subprocess_exec(
        sys.executable, *words, env={**os.environ, **keys, "KUBECONFIG": str(kubeconfig)}, stdout=PIPE, stderr=STDOUT
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def test_our_master_leads_a_job_to_its_end_with_no_more_rights_than_it_is_given(
    client: KubeClient, site: Site, tmp_path: Path
) -> None:
    async with elastic_scene(client) as (scene, nodes):
        await scene.submit(job(nodes, NAME, size=2))
        await scene.until_master(NAME)
        async with program(scene, site, tmp_path):
            first = await scene.until_workers(NAME, 0, 1)
            both = message(MessageReason.MEMBER_COUNT, group="worker", running=2, wanted=2)
            told = message(MessageReason.MEMBERS_RUNNING, [both])
            await scene.until(lambda: scene.message(NAME) == told, "both counted")
            await scene.delete_pod(f"{NAME}-edljob-worker-1")
            again = await scene.until_workers(NAME, 0, 2)
            assert again["0"] == first["0"]
        # Killed: the next one finds both at work, and leaves them at it.
        async with program(scene, site, tmp_path) as process:
            assert process.stdout is not None
            while b"has_state=True" not in (line := await process.stdout.readline()):
                assert line, "it has ended"
            for index in ("0", "2"):
                nodes.order(f"{NAME}-edljob-worker-{index}", Ends(0))
            said = (await process.stdout.read()).decode()
            assert await process.wait() == 0, said
            assert "the job has succeeded" in said
        assert await scene.until_workers(NAME, 0, 2) == again
        nodes.order(master(NAME), Ends(0))
        await scene.until_phase(NAME, "Succeeded")
        await scene.until_workers(NAME)
