"""What the operator's command understands, and that it can be watched from outside."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from argparse import ArgumentParser, Namespace
from datetime import timedelta
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml

from pliant.cli.commands.admin.operator import configure
from pliant.cli.main import main
from pliant.frontends.aitrainingjob.job import AITrainingJobFrontend
from pliant.kube.resources import CRDS
from tests.embedded.serving import reachable, serving
from tests.faults.rig import JOBS
from tests.faults.scenarios import group
from tests.scenarios.tap import tapped


def understood(*words: str) -> Namespace:
    parser = ArgumentParser(exit_on_error=False)
    configure(parser)
    return parser.parse_args(words)


def test_names_by_which_other_operators_know_an_option_are_understood() -> None:
    args = understood(
        *("--master", "https://x", "--thread-num", "4", "--leader-elect=true", "--leader-elect-lease-duration", "30s"),
        *("--leader-elect-renew-deadline=20s", "--leader-elect-retry-period=1s"),
        *("--leader-elect-resource-name=a", "--leader-elect-resource-namespace=b"),
    )
    assert (args.server, args.workers, args.leader_elect) == ("https://x", 4, True)
    assert args.lease_duration == timedelta(seconds=30)
    assert args.renew_deadline == timedelta(seconds=20)
    assert args.retry_period == timedelta(seconds=1)
    assert (args.lease_name, args.lease_namespace) == ("a", "b")


def test_nothing_said_means_alone_and_unwatched() -> None:
    args = understood()
    assert (args.leader_elect, args.metrics_bind_address, args.workers) == (False, None, 64)
    assert (args.lease_duration, args.lease_name) == (timedelta(seconds=15), "pliant-operator")
    assert args.namespaces == []
    assert understood("--namespace", "a", "--namespace=b").namespaces == ["a", "b"]
    assert understood("--leader-elect").leader_elect is True
    assert understood("--leader-elect=false").leader_elect is False


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("8080", ("127.0.0.1", 8080)),
        (":8080", (None, 8080)),
        ("0.0.0.0:80", ("0.0.0.0", 80)),
        ("[::1]:80", ("::1", 80)),
        ("localhost:0", ("localhost", 0)),
        ("0", None),
    ],
)
def test_where_to_listen(text: str, address: tuple[str | None, int] | None) -> None:
    assert understood("--metrics-bind-address", text).metrics_bind_address == address


@pytest.mark.parametrize("words", [("--workers", "0"), ("--metrics-bind-address", "x:y"), ("--leader-elect=maybe",)])
def test_what_makes_no_sense_is_refused(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_:
        main(["operator", *words])
    assert exit_.value.code == 2
    assert capsys.readouterr().err.startswith("error: argument --")


async def test_an_operator_is_watched_from_outside(tmp_path: Path) -> None:
    options = ("--install-crds", "--leader-elect", "--metrics-bind-address", "127.0.0.1:0", "--log-format", "json")
    async with serving() as served, reachable(served.api, tmp_path) as server:
        command = (sys.executable, "-m", "pliant", "operator", "--kubeconfig", str(server.kubeconfig), *options)
        process = await asyncio.create_subprocess_exec(*command, stderr=asyncio.subprocess.PIPE)
        assert process.stderr is not None
        try:
            async with asyncio.timeout(30), aiohttp.ClientSession() as session:
                url = f"http://127.0.0.1:{(await told(process.stderr, 'serving metrics'))['port']}"
                await told(process.stderr, "operator starting")
                async with session.get(f"{url}/healthz") as answer:
                    assert answer.status == 200
                async with session.get(f"{url}/metrics") as answer:
                    assert answer.content_type == "text/plain"
                    text = await answer.text()
                assert "\npliant_leader 1\n" in text
                assert 'pliant_api_requests_total{verb="create",resource="leases.coordination.k8s.io"' in text
                process.terminate()
                await told(process.stderr, "released lease")
                assert await process.wait() == 0
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()


async def test_a_line_that_started_another_operator_starts_this_one(tmp_path: Path) -> None:
    """Nothing but an address, no kubeconfig: the server lets everybody in."""
    line = ["--v", "4", "--thread-num", "1000", "--logtostderr", "--leader-elect=true", "--enable-creating-failed=true"]
    async with (
        serving() as served,
        reachable(served.api, tmp_path) as server,
        tapped(server.kubeconfig, lambda text: text) as (tap, text),
    ):
        await served.client.create(CRDS, None, AITrainingJobFrontend().crd())
        await served.client.create(JOBS, "default", JOB)
        address = yaml.safe_load(text)["clusters"][0]["cluster"]["server"].removeprefix("http://")
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "pliant", "operator", "--master", address, *line),
            stderr=asyncio.subprocess.PIPE,
            env={"HOME": str(tmp_path), "PATH": os.environ["PATH"]},
        )
        try:
            async with asyncio.timeout(30):
                await tap.until(lambda arrival: (arrival.method, arrival.path.partition("?")[0]) == CREATES_PODS)
                process.terminate()
                _, log = await process.communicate()
            assert (process.returncode, "operator stopped reason=SIGTERM" in log.decode()) == (0, True)
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()


CREATES_PODS = ("POST", "/api/v1/namespaces/default/pods")
JOB = {
    "apiVersion": JOBS.api_version,
    "kind": JOBS.kind,
    "metadata": {"name": "bert", "namespace": "default"},
    "spec": {"replicaSpecs": {"worker": group(1)}},
}


async def told(log: asyncio.StreamReader, message: str) -> dict[str, Any]:
    """The next record of the log that says so."""
    async for line in log:
        record: dict[str, Any] = json.loads(line)
        if record["message"] == message:
            return record
    raise AssertionError(f"never said: {message}")
