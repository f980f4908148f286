from __future__ import annotations

import asyncio
import base64
import json
import re
import stat
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from pliant.cli.cluster.apply import install_crds
from pliant.cli.explain.cluster_checks import DoctorFinding, FindingSeverity, examine_cluster
from pliant.cli.input.operator_options import DEFAULT_LEASE_NAME
from pliant.cli.main import main
from pliant.controllers.crds import outdated_crd_fields
from pliant.controllers.rbac.permissions import operator_permissions
from pliant.embedded.apiserver.http.in_process_transport import InProcessTransport
from pliant.frontends import FRONTENDS
from pliant.kube.auth.credentials import ClientCertificate, Credential
from pliant.kube.auth.expiry import describe_expired_credential
from pliant.kube.client import KubeClient
from pliant.kube.resources import CRDS
from pliant.kube.transport.base import Reply, Request
from tests.embedded.serving import Reachable, Served, reachable, serving
from tests.kube.certificates import make_pair


class Said(NamedTuple):
    code: int
    out: str
    err: str


Doctor = Callable[..., Any]


@pytest.fixture
def doctor(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Doctor:
    """Asks the doctor from a home without a cluster."""
    monkeypatch.setenv("HOME", str(tmp_path / "nobody"))
    monkeypatch.delenv("KUBECONFIG", raising=False)

    async def ask(*words: object) -> Said:
        with pytest.raises(SystemExit) as end:
            await asyncio.to_thread(main, ["doctor", *map(str, words)])
        out, err = capsys.readouterr()
        assert isinstance(end.value.code, int)
        return Said(end.value.code, out, err)

    return ask


def one_line(said: Said) -> str:
    """The complaint of a doctor who could not examine anything."""
    assert said.code == 1
    assert said.out == ""
    [line] = said.err.splitlines()
    assert line.startswith("error: ")
    return line


@asynccontextmanager
async def cluster(folder: Path) -> AsyncIterator[tuple[Served, Reachable]]:
    async with serving() as served, reachable(served.api, folder) as at:
        yield served, at


def changed(at: Reachable, folder: Path, **changes: Any) -> Path:
    """The kubeconfig of a cluster with some of it replaced."""
    document = yaml.safe_load(at.kubeconfig.read_text())
    document["clusters"][0]["cluster"].update(changes.get("cluster", {}))
    if "user" in changes:
        document["users"][0]["user"] = changes["user"]
    file = folder / "changed"
    file.write_text(yaml.safe_dump(document))
    return file


async def test_a_healthy_cluster_is_told_on_one_screen(doctor: Doctor, tmp_path: Path) -> None:
    async with cluster(tmp_path) as (served, at):
        await install_crds(served.client)
        said = await doctor("--kubeconfig", at.kubeconfig)
    assert said.code == 0, said
    assert len(said.out.splitlines()) < 20
    for fact in (at.url, "context pliant", "Kubernetes v1.", "latency ", "kubernetes-admin", "up to date"):
        assert fact in said.out
    assert "✗" not in said.out
    assert said.out.endswith("All checks passed.\n")


async def test_what_is_missing_comes_with_what_to_do(doctor: Doctor, tmp_path: Path) -> None:
    async with cluster(tmp_path) as (_, at):
        said = await doctor("--kubeconfig", at.kubeconfig)
    assert said.code == 1
    assert "✗ CRDs" in said.out
    assert "→ install them: pliant crds | kubectl apply --server-side -f -" in said.out
    assert said.out.endswith("1 problem found.\n")


async def test_without_a_cluster_there_is_still_the_machine(doctor: Doctor) -> None:
    said = await doctor()
    assert "! cluster        no cluster found" in said.out
    assert "namespaces" in said.out


@pytest.mark.parametrize(
    ("text", "words", "complaint"),
    [
        (None, [], "no such file"),
        ("a: [", [], "is not YAML: line "),
        ("[]", [], "must contain an object"),
        ("{}", ["--context", "x"], "no context named 'x'"),
    ],
)
async def test_a_bad_kubeconfig_is_one_line(
    doctor: Doctor, tmp_path: Path, text: str | None, words: list[str], complaint: str
) -> None:
    file = tmp_path / "config"
    if text is not None:
        file.write_text(text)
    assert complaint in one_line(await doctor("--kubeconfig", file, *words))


async def test_an_unknown_context_is_told_with_the_known_ones(doctor: Doctor, tmp_path: Path) -> None:
    async with cluster(tmp_path) as (_, at):
        line = one_line(await doctor("--kubeconfig", at.kubeconfig, "--context", "prod"))
    assert "no context named 'prod'" in line
    assert "(defined: pliant)" in line


async def test_a_server_that_is_not_there_is_one_line(doctor: Doctor, tmp_path: Path) -> None:
    async with cluster(tmp_path) as (_, at):
        away = changed(at, tmp_path, cluster={"server": "https://127.0.0.1:1"})
        assert "https://127.0.0.1:1/version: Connection refused" in one_line(await doctor("--kubeconfig", away))


async def test_a_server_of_another_authority_is_one_line(doctor: Doctor, tmp_path: Path) -> None:
    other = base64.b64encode(make_pair("elsewhere").certificate).decode()
    async with cluster(tmp_path) as (_, at):
        strange = changed(at, tmp_path, cluster={"certificate-authority-data": other})
        line = one_line(await doctor("--kubeconfig", strange))
    assert "certificate is not trusted" in line
    assert "fetch it again" in line


async def test_a_refused_credential_is_one_line(doctor: Doctor, tmp_path: Path) -> None:
    async with cluster(tmp_path) as (_, at):
        refused = changed(at, tmp_path, user={"token": "wrong"})
        assert "the credential was rejected" in one_line(await doctor("--kubeconfig", refused))
        nothing = changed(at, tmp_path, user={})
        assert "the kubeconfig has no credential" in one_line(await doctor("--kubeconfig", nothing))


async def test_an_expired_credential_of_a_program_is_one_line(doctor: Doctor, tmp_path: Path) -> None:
    answer = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "kind": "ExecCredential",
        "status": {"token": "old", "expirationTimestamp": "2020-01-01T00:00:00Z"},
    }
    program = tmp_path / "login"
    program.write_text(f"#!{sys.executable} -S\nprint({json.dumps(answer)!r})\n")
    program.chmod(stat.S_IRWXU)
    entry = {"apiVersion": answer["apiVersion"], "command": str(program), "interactiveMode": "Never"}
    async with cluster(tmp_path) as (_, at):
        line = one_line(await doctor("--kubeconfig", changed(at, tmp_path, user={"exec": entry})))
        assert f"`{program}` expired on 2020-01-01 at 00:00 UTC" in line
        entry["command"] = "not-installed"
        line = one_line(await doctor("--kubeconfig", changed(at, tmp_path, user={"exec": entry})))
        assert "`not-installed` cannot be started" in line


def test_what_is_over_is_found_in_tokens_and_certificates() -> None:
    now = datetime(2030, 1, 1, tzinfo=UTC)
    claims = base64.urlsafe_b64encode(b'{"exp":1577836800}').rstrip(b"=").decode()
    assert describe_expired_credential(None, Credential(authorization=f"Bearer a.{claims}.b"), now).startswith(
        "the token expired"
    )
    assert describe_expired_credential(None, Credential(authorization="Bearer a.b.c"), now) == ""
    pair = ClientCertificate(*make_pair("me"))
    assert describe_expired_credential(None, Credential(certificate=pair), now) == ""
    assert "certificate expired" in describe_expired_credential(
        None, Credential(certificate=pair), datetime(2130, 1, 1, tzinfo=UTC)
    )
    assert describe_expired_credential(None, Credential(certificate=ClientCertificate(b"?", b"?")), now) == ""


class Answering(InProcessTransport):
    """The embedded server, which answers some questions otherwise."""

    def __init__(self, served: Served, answers: dict[str, Callable[[dict[str, Any]], Reply | None]]) -> None:
        super().__init__(served.api)
        self._answers = answers

    async def send(self, request: Request) -> Reply:
        for path, answer in self._answers.items():
            asked = json.loads(request.body) if request.body else {}
            if path in request.path and (reply := answer(asked)) is not None:
                return reply
        return await super().send(request)


def reply(content: Any, status: int = 200) -> Reply:
    return Reply(status=status, body=json.dumps(content).encode())


def refusal(status: int) -> Reply:
    return reply({"kind": "Status", "code": status, "message": "no"}, status)


async def findings(
    answers: dict[str, Any], namespace: str | None = None, *, with_crds: bool = False
) -> dict[str, DoctorFinding]:
    async with serving() as served:
        if with_crds:
            await install_crds(served.client)
        client = KubeClient(Answering(served, answers))
        return {finding.topic: finding async for finding in examine_cluster(client, namespace, "home")}


async def test_missing_rights_are_named_with_verb_resource_and_reason() -> None:
    def judge(asked: dict[str, Any]) -> Reply:
        wanted = asked["spec"]["resourceAttributes"]
        cluster_wide = {"nodes": None, "priorityclasses": None, "subjectaccessreviews": None}
        assert wanted.get("namespace") == {**cluster_wide, "leases": "home", "secrets": "home"}.get(
            wanted["resource"], "team-a"
        )
        denied = {"pods": ("create", "delete"), "nodes": ("watch",), "leases": ("create", "watch")}
        is_denied = wanted["verb"] in denied.get(wanted["resource"], ()) or wanted.get("subresource") == "status"
        return reply({"status": {"allowed": not is_denied}}, 201)

    found = (await findings({"selfsubjectaccessreviews": judge}, "team-a"))["permissions"]
    assert found.severity is FindingSeverity.ERROR
    assert found.message.splitlines() == [
        "missing in namespace team-a:",
        "pods: create, delete — to create, watch and delete pods",
        *(f"{end.plural}/status.{end.group}: patch — to update job status" for end in FRONTENDS.values()),
        "scaleplans/status.elastic.iml.github.io: patch — to update scale plan status",
        "nodes: watch — to detect node failures and measure cluster capacity (optional)",
        "leases.coordination.k8s.io: create — for leader election (in namespace home)",
        "leases.coordination.k8s.io: watch — for leader election (in namespace home)",
    ]


async def test_a_right_that_can_be_done_without_is_no_illness() -> None:
    def judge(question: dict[str, Any]) -> Reply:
        return reply({"status": {"allowed": question["spec"]["resourceAttributes"]["resource"] != "nodes"}}, 201)

    found = (await findings({"selfsubjectaccessreviews": judge}))["permissions"]
    assert found.severity is FindingSeverity.WARNING
    assert "nodes: list, watch" in found.message


async def test_every_right_the_operator_needs_is_asked_for() -> None:
    asked: set[tuple[str, str, str, str]] = set()

    def note(question: dict[str, Any]) -> None:
        wanted = question["spec"]["resourceAttributes"]
        asked.add((wanted["group"], wanted["resource"], wanted.get("subresource", ""), wanted["verb"]))

    found = (await findings({"selfsubjectaccessreviews": note}))["permissions"]
    wanted = {
        (right.group, right.resource, right.subresource, verb)
        for right in operator_permissions(DEFAULT_LEASE_NAME)
        for verb in right.verbs
    }
    assert asked == wanted
    assert found.message == f"all {len(wanted)} permissions that the operator needs in all namespaces"


@pytest.mark.parametrize(
    ("version", "health", "said"),
    [
        ("v1.25.3", FindingSeverity.ERROR, "upgrade"),
        ("v1.29.0+k3s1", FindingSeverity.OK, ""),
        ("v1.99.0", FindingSeverity.OK, ""),
        ("odd", FindingSeverity.WARNING, "not tested with this version"),
    ],
)
async def test_a_version_is_judged(version: str, health: FindingSeverity, said: str) -> None:
    found = (await findings({"/version": lambda _: reply({"gitVersion": version})}))["version"]
    assert (found.severity, version in found.message) == (health, True)
    assert said in found.fix


async def test_somebody_unknown_is_told_to_log_in() -> None:
    nobody = reply({"status": {"userInfo": {"username": "system:anonymous"}}}, 201)
    found = (await findings({"selfsubjectreviews": lambda _: nobody}))["user"]
    assert (found.severity, found.message) == (FindingSeverity.ERROR, "system:anonymous")
    assert (await findings({"selfsubjectreviews": lambda _: refusal(403)}))["user"].severity is FindingSeverity.WARNING


async def test_definitions_one_may_not_read_are_looked_for_where_everybody_may() -> None:
    hidden = {"customresourcedefinitions": lambda _: refusal(403)}
    assert (await findings(hidden, with_crds=True))["CRDs"].severity is FindingSeverity.OK
    absent = {**hidden, "/apis/elasticdeeplearning.ai": lambda _: refusal(404)}
    assert (await findings(absent, with_crds=True))["CRDs"].severity is FindingSeverity.ERROR


async def test_a_definition_of_another_version_is_found_out() -> None:
    async with serving() as served:
        await install_crds(served.client)
        for frontend in FRONTENDS.values():
            wanted = frontend.crd()
            present = await served.client.get(CRDS, None, wanted["metadata"]["name"])
            assert outdated_crd_fields(wanted, present) == []
            version = present["spec"]["versions"][0]
            spec = version["schema"]["openAPIV3Schema"]["properties"]["spec"]
            spec.get("items", spec)["properties"].popitem()
            version["subresources"].pop("status")
            parts = outdated_crd_fields(wanted, present)
            assert any(part.endswith(".subresources.status") for part in parts)
            assert any(re.search(r"\.properties\.spec\.(items\.)?properties\.", part) for part in parts)
