from __future__ import annotations

import asyncio
import json
import os
import stat
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from pliant.errors import Unauthorized
from pliant.kube.auth.credentials import ClientCertificate, Credential
from pliant.kube.auth.exec_plugin import MAX_RENEWAL_LEAD_TIME, MIN_RUN_INTERVAL, ExecCredentials
from pliant.kube.client_config import find_api_server
from tests.kube.test_config import parts, write

V1 = "client.authentication.k8s.io/v1"
START = datetime(2030, 1, 1, tzinfo=UTC)

PROGRAM = f"""#!{sys.executable} -S
import json, os, pathlib, sys
here = pathlib.Path(__file__).parent
runs = here / "runs"
runs.open("a").write(json.dumps({{
    "info": json.loads(os.environ["KUBERNETES_EXEC_INFO"]),
    "args": sys.argv[1:],
    "word": os.environ.get("WORD"),
    "path": "PATH" in os.environ,
}}) + "\\n")
answer = json.loads((here / "answer").read_text())
if isinstance(answer, int):
    print("some noise", file=sys.stderr)
    print("please log in first", file=sys.stderr)
    sys.exit(answer)
text = json.dumps(answer).replace("COUNT", str(len(runs.read_text().splitlines())))
print(text)
"""


class Plugin:
    """A login program that answers as a test tells it to, at a time of the test's choosing."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.now = START
        (folder / "login").write_text(PROGRAM)
        (folder / "login").chmod(stat.S_IRWXU)
        self.say(token="t-COUNT")

    def say(self, **status: Any) -> None:
        self.answer({"apiVersion": V1, "kind": "ExecCredential", "status": status})

    def answer(self, content: Any) -> None:
        (self.folder / "answer").write_text(json.dumps(content))

    @property
    def runs(self) -> list[dict[str, Any]]:
        told = self.folder / "runs"
        return [json.loads(line) for line in told.read_text().splitlines()] if told.exists() else []

    def login(self, cluster: dict[str, Any] | None = None, **fields: Any) -> ExecCredentials:
        entry = {"command": "./login", "apiVersion": V1, "interactiveMode": "Never", **fields}
        document = parts("x", exec=entry)
        document["clusters"][0]["cluster"].update(cluster or {})
        file = write(self.folder / "config", current_context="x", **document)
        login = find_api_server(file, None, os.environ, lambda: self.now).credentials
        assert isinstance(login, ExecCredentials)
        return login


@pytest.fixture
def plugin(tmp_path: Path) -> Plugin:
    return Plugin(tmp_path)


def token(text: str) -> Credential:
    return Credential(authorization=f"Bearer {text}")


async def test_a_program_is_asked_once_and_told_what_the_kubeconfig_says(plugin: Plugin) -> None:
    login = plugin.login(args=["get-token", "x"], env=[{"name": "WORD", "value": "w"}])
    assert [await login.credential() for _ in range(3)] == [token("t-1")] * 3
    [run] = plugin.runs
    assert (run["args"], run["word"], run["path"]) == (["get-token", "x"], "w", True)
    assert run["info"] == {"apiVersion": V1, "kind": "ExecCredential", "spec": {"interactive": False}}


async def test_many_requests_at_once_run_it_once(plugin: Plugin) -> None:
    login = plugin.login()
    assert set(await asyncio.gather(*(login.credential() for _ in range(20)))) == {token("t-1")}
    assert len(plugin.runs) == 1


async def test_it_learns_of_the_cluster_when_it_wants_to(plugin: Plugin) -> None:
    extension = {"name": "client.authentication.k8s.io/exec", "extension": {"audience": "a"}}
    cluster = {"tls-server-name": "k", "extensions": [extension]}
    await plugin.login(cluster, provideClusterInfo=True).credential()
    assert plugin.runs[0]["info"]["spec"]["cluster"] == {
        "server": "https://x.example:6443/",
        "tls-server-name": "k",
        "config": {"audience": "a"},
    }


async def test_the_older_version_is_spoken_too(plugin: Plugin) -> None:
    older = V1 + "beta1"
    plugin.answer({"apiVersion": older, "kind": "ExecCredential", "status": {"token": "old"}})
    assert await plugin.login(apiVersion=older, interactiveMode=None).credential() == token("old")


async def test_a_certificate_may_be_given_in_place_of_a_token(plugin: Plugin) -> None:
    plugin.say(clientCertificateData="CERT", clientKeyData="KEY")
    assert (await plugin.login().credential()).certificate == ClientCertificate(b"CERT", b"KEY")


async def test_a_credential_is_renewed_before_it_ends(plugin: Plugin) -> None:
    end = START + timedelta(hours=1)
    plugin.say(token="t-COUNT", expirationTimestamp=end.isoformat())
    login = plugin.login()
    await login.credential()
    plugin.now = end - MAX_RENEWAL_LEAD_TIME - timedelta(seconds=1)
    assert await login.credential() == token("t-1")
    plugin.now = end - MAX_RENEWAL_LEAD_TIME
    assert await login.credential() == token("t-2")


@pytest.mark.parametrize("back", [timedelta(hours=2), timedelta(days=2)])
async def test_when_the_clock_was_set_back_the_program_is_asked_again(plugin: Plugin, back: timedelta) -> None:
    plugin.say(token="t-COUNT", expirationTimestamp=(START + timedelta(hours=1)).isoformat())
    login = plugin.login()
    await login.credential()
    plugin.now = START - back
    assert await login.credential() == token("t-2")
    plugin.now += timedelta(seconds=30)
    assert await login.credential() == token("t-2")
    plugin.now -= timedelta(minutes=1)
    assert await login.renew_after_rejection(token("t-2"))


async def test_while_it_is_good_a_failure_to_renew_is_borne(plugin: Plugin) -> None:
    end = START + timedelta(hours=1)
    plugin.say(token="t-COUNT", expirationTimestamp=end.isoformat())
    login = plugin.login()
    await login.credential()
    plugin.answer(1)
    plugin.now = end - MAX_RENEWAL_LEAD_TIME
    assert [await login.credential() for _ in range(2)] == [token("t-1")] * 2
    assert len(plugin.runs) == 2
    plugin.now += MIN_RUN_INTERVAL
    await login.credential()
    assert len(plugin.runs) == 3
    plugin.now = end
    with pytest.raises(Unauthorized, match="please log in first"):
        await login.credential()


async def test_one_that_is_over_when_it_comes_is_shown_but_not_asked_for_without_end(plugin: Plugin) -> None:
    plugin.say(token="t-COUNT", expirationTimestamp=(START - timedelta(hours=1)).isoformat())
    login = plugin.login()
    assert [await login.credential() for _ in range(3)] == [token("t-1")] * 3
    assert login.expires_at == START - timedelta(hours=1)
    plugin.now += MIN_RUN_INTERVAL
    assert await login.credential() == token("t-2")


async def test_what_the_server_refused_is_renewed_once(plugin: Plugin) -> None:
    login = plugin.login()
    refused = await login.credential()
    assert not await login.renew_after_rejection(refused)  # it has only just been made
    plugin.now += MIN_RUN_INTERVAL
    assert set(await asyncio.gather(*(login.renew_after_rejection(refused) for _ in range(5)))) == {True}
    assert await login.credential() == token("t-2")
    assert len(plugin.runs) == 2


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (3, "`.*login` exited with code 3: please log in first"),
        ("text", "did not print an ExecCredential"),
        ({"kind": "Status"}, "printed Status"),
        ({"apiVersion": V1 + "beta1", "kind": "ExecCredential"}, "expected ExecCredential"),
        ({"apiVersion": V1, "kind": "ExecCredential"}, "neither a token nor a certificate"),
        ({"apiVersion": V1, "kind": "ExecCredential", "status": {"clientCertificateData": "x"}}, "without its key"),
    ],
)
async def test_a_program_that_does_not_help_is_told_of(plugin: Plugin, answer: Any, said: str) -> None:
    plugin.answer(answer)
    with pytest.raises(Unauthorized, match=said):
        await plugin.login().credential()


async def test_a_program_that_is_not_there_comes_with_a_hint(plugin: Plugin) -> None:
    with pytest.raises(Unauthorized, match=r"`not-installed` cannot be started: .*\. Get it from https://x\."):
        await plugin.login(command="not-installed", installHint="Get it\nfrom https://x.").credential()


async def test_a_program_that_must_ask_needs_a_terminal(plugin: Plugin, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(Unauthorized, match="requires a terminal"):
        await plugin.login(interactiveMode="Always").credential()


async def test_whoever_no_longer_waits_leaves_no_process_behind(plugin: Plugin) -> None:
    pipe = plugin.folder / "pid"
    os.mkfifo(pipe)
    (plugin.folder / "login").write_text(f"#!/bin/sh\necho $$ > {pipe}\nexec sleep 60\n")
    waiting = asyncio.create_task(plugin.login().credential())
    pid = int(await asyncio.to_thread(pipe.read_text))
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
