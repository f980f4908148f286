"""The verbs of the Makefile that need no cluster: what there is, and what they say when something is missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.making import made
from tests.cli.ordinary_user import OrdinaryUser

VERBS = ("install", "uninstall", "deploy", "undeploy", "run", "manifests", "docker-build", "docker-push")
NOBODY_THERE = """\
apiVersion: v1
kind: Config
current-context: gone
clusters: [{name: gone, cluster: {server: "http://127.0.0.1:1"}}]
contexts: [{name: gone, context: {cluster: gone, user: me}}]
users: [{name: me, user: {}}]
"""


def stub(folder: Path, name: str, script: str) -> str:
    """A program that stands for another; the user may run it."""
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


def complaint(text: str) -> str:
    """What is said before make adds that a verb failed."""
    return text.partition("make: ***")[0].strip()


def test_make_alone_lists_every_verb_with_a_line(user: OrdinaryUser) -> None:
    ended = made(user)
    assert (ended.code, ended.err) == (0, "")
    lines = {line.split()[0]: line for line in ended.out.splitlines() if line.startswith("  ")}
    for verb in VERBS:
        assert len(lines[verb].split()) > 3
    assert made(user, "help") == ended


@pytest.mark.kubectl
@pytest.mark.parametrize("verb", ["install", "uninstall", "deploy", "undeploy"])
def test_where_no_cluster_answers_the_context_and_the_fix_are_named(user: OrdinaryUser, verb: str) -> None:
    kubeconfig = user.write("kubeconfig", NOBODY_THERE)
    ended = made(user, verb, KUBECONFIG=kubeconfig)
    assert ended.code == 2
    assert ended.out == ""
    assert complaint(ended.err).startswith("cannot reach the cluster of context gone: ")
    assert "fix: select another with `kubectl config use-context`" in ended.err


FORBIDDEN = """\
case "$*" in
  *--raw*|*config*) echo ok ;;
  *delete*) touch "$HOME/deleted" ;;
  *) echo 'Error from server (Forbidden): paddlejobs.paddlepaddle.org is forbidden' >&2; exit 1 ;;
esac"""


def test_jobs_that_cannot_be_listed_are_not_taken_for_none(user: OrdinaryUser) -> None:
    kubectl = f"KUBECTL={stub(user.home, 'kubectl', FORBIDDEN)}"
    ended = made(user, "uninstall", "KINDS=paddle", kubectl)
    assert ended.code == 2
    assert ended.out == ""
    said = "cannot list the jobs of this cluster, nothing was deleted: Error from server (Forbidden): "
    assert complaint(ended.err).startswith(said)
    assert not (user.home / "deleted").exists()
    assert made(user, "uninstall", "KINDS=paddle", "FORCE=1", kubectl).code == 0
    assert (user.home / "deleted").exists()


@pytest.mark.parametrize("verb", ["install", "run", "deploy", "undeploy", "uninstall"])
def test_every_verb_about_a_cluster_takes_kinds(user: OrdinaryUser, verb: str) -> None:
    ended = made(user, verb, "KINDS=nothing", f"KUBECTL={stub(user.home, 'kubectl', 'cat >/dev/null')}")
    assert ended.code == 2
    assert "error: unknown kind `nothing`" in ended.err


def test_without_kubectl_it_is_said_how_to_get_one(user: OrdinaryUser) -> None:
    ended = made(user, "install", "KUBECTL=no-such-kubectl")
    assert ended.code == 2
    assert complaint(ended.err).startswith("no no-such-kubectl on the PATH; fix: install it, or build one")


def test_an_operator_without_a_cluster_says_where_it_looked(user: OrdinaryUser) -> None:
    ended = made(user, "run")
    assert ended.code == 2
    assert complaint(ended.err).startswith("error: no cluster found: checked $KUBECONFIG, ")


@pytest.mark.parametrize("verb", ["docker-build", "docker-push"])
def test_without_a_container_engine_one_line_says_so(user: OrdinaryUser, verb: str) -> None:
    ended = made(user, verb, "IMG=registry.example/pliant:1", "CONTAINER_TOOL=no-such-engine")
    assert ended.code == 2
    assert complaint(ended.err) == "no no-such-engine on the PATH; fix: install one, or set CONTAINER_TOOL=…"


def test_an_engine_that_does_not_answer_is_named(user: OrdinaryUser) -> None:
    silent = stub(user.home, "docker", "exit 1")
    ended = made(user, "docker-build", f"CONTAINER_TOOL={silent}")
    assert ended.code == 2
    assert complaint(ended.err).startswith(f"the engine of {silent} does not respond; fix: start it")


def test_an_image_is_built_and_pushed_under_the_name_asked_for(user: OrdinaryUser) -> None:
    engine = stub(user.home, "docker", 'echo "$@" "$(ls Dockerfile)"')
    name = "IMG=registry.example/operator:tag"
    ended = made(user, "docker-build", "docker-push", name, f"CONTAINER_TOOL={engine}")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.splitlines() == [
        "build -t registry.example/operator:tag . Dockerfile",
        "push registry.example/operator:tag Dockerfile",
    ]


def test_an_image_without_a_registry_is_not_pushed(user: OrdinaryUser) -> None:
    ended = made(user, "docker-push")
    assert ended.code == 2
    assert "does not name a registry; fix: make docker-push IMG=registry.example/pliant:" in ended.err
