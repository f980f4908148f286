"""The operator understands the command lines of those it replaces."""

from __future__ import annotations

import sys
from argparse import ArgumentError, ArgumentParser, Namespace
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
import yaml

from pliant.cli import cluster_choice
from pliant.cli.autoscale_options import autoscale_of
from pliant.cli.cluster_choice import chosen_endpoint
from pliant.cli.main import main
from pliant.cli.operator import configure
from pliant.cli.operator_options import rules_of
from pliant.controllers.autoscale.options import Options
from pliant.errors import NoCluster, NotPossibleHere, UserError
from pliant.kube import config
from pliant.kube.http import Endpoint
from pliant.model.rules import Rules
from pliant.runtime.clock import SystemClock
from tests.kube.certificates import make_pair

KNOWN_LINE = (
    "--master 10.0.0.1:8080 --v 4 --thread-num 1000 --logtostderr --leader-elect=true"
    " --enable-creating-failed=true"
)

HERE = Rules(master_command=(sys.executable, "-m", "pliant.master"))
"""What holds when nothing is said."""


def understood(line: str) -> Namespace:
    parser = ArgumentParser(allow_abbrev=False, exit_on_error=False)
    configure(parser)
    return parser.parse_args(line.split())


def test_a_known_command_line_is_understood() -> None:
    args = understood(KNOWN_LINE)
    assert (args.server, args.verbosity, args.workers) == ("10.0.0.1:8080", 4, 1000)
    assert (args.leader_elect, rules_of(args)) == (True, replace(HERE, creating_fails=True))


def test_writes_at_a_time_have_a_limit_of_ones_own() -> None:
    assert (understood("").max_writes, understood("--max-writes 200").max_writes) == (64, 200)


@pytest.mark.parametrize("line", ["-v=4", "-v 4", "-v4", "--v=4", "--v 4"])
def test_verbosity_is_spelled_as_anybody_likes(line: str) -> None:
    assert understood(line).verbosity == 4


@pytest.mark.parametrize(
    ("word", "meant"),
    [("", True), ("=true", True), ("=True", True), ("=1", True), ("=t", True), ("=false", False), ("=0", False)],
)
@pytest.mark.parametrize("option", ["leader-elect", "run-in-cluster", "enable-creating-failed", "logtostderr"])
def test_switches_are_named_or_set(option: str, word: str, meant: bool) -> None:
    assert getattr(understood(f"--{option}{word}"), option.replace("-", "_")) is meant


def test_patience_becomes_the_rules_of_all_jobs() -> None:
    assert rules_of(understood("")) == HERE
    assert Rules().creating_restart == timedelta(hours=1)
    args = understood(
        "--creating-restart-period 1h30m --creating-duration-period=1.5h --enable-creating-failed"
        " --node-grace-period 500ms --resync-period 10s"
    )
    assert rules_of(args) == replace(
        HERE,
        creating_duration=timedelta(hours=1.5),
        creating_restart=timedelta(hours=1.5),
        creating_fails=True,
        node_grace=timedelta(seconds=0.5),
    )


def test_masters_run_this_python_unless_an_image_is_named() -> None:
    assert rules_of(understood("")).master_command == (sys.executable, "-m", "pliant.master")
    named = rules_of(understood("--master-image registry.example/pliant:1 --plan-history 3 --plan-life 5m"))
    assert (named.master_image, named.master_command[0]) == ("registry.example/pliant:1", "python")
    assert (named.plan_history, named.plan_life) == (3, timedelta(minutes=5))


def test_no_patience_at_all_is_a_choice() -> None:
    rules = rules_of(understood("--creating-restart-period 0 --node-grace-period 0s --resync-period 0"))
    assert (rules.creating_restart, rules.node_grace) == (timedelta(0), timedelta(0))


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (
            "--creating-duration-period 0",
            "--creating-duration-period: `0` is not a duration; write 30s, 5m or 1h30m",
        ),
        (
            "--node-grace-period soon",
            "--node-grace-period: `soon` is not a duration; write 30s, 5m or 1h30m, or 0",
        ),
        ("--namespace=", "--namespace: `` is not a namespace; leave the option out to work in all of them"),
        ("--namespace A", "--namespace: `A` is not a namespace; leave the option out to work in all of them"),
        ("--v loud", "-v/--v: `loud` is not a level; write a whole number, as 0 or 4"),
        ("--leader-elect=maybe", "--leader-elect: `maybe` is neither true nor false"),
        ("--thread-num 0", "--workers/--thread-num: `0` is not a whole number above 0"),
        ("--master a:b", "--server/--master: `a:b` is not an address; write https://HOST:PORT or HOST:PORT"),
        (
            "--master ftp://a",
            "--server/--master: `ftp://a` is not an address; write https://HOST:PORT or HOST:PORT",
        ),
        ("--master :80", "--server/--master: `:80` is not an address; write https://HOST:PORT or HOST:PORT"),
    ],
)
def test_a_bad_value_is_answered_with_the_option_and_the_fix(
    line: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as exit_:
        main(["operator", *line.split()])
    assert exit_.value.code == 2
    assert capsys.readouterr().err == f"error: argument {told}\nSee `pliant operator --help`.\n"


def test_every_option_tells_its_default(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["operator", "--help"])
    text = " ".join(capsys.readouterr().out.split())
    for words in ("cluster:", "work:", "patience:", "leader election:", "monitoring:", "(15m)", "(1h)", "(10s)"):
        assert words in text


# Which server, and how it is spoken to.


def chosen(line: str, **environment: str) -> Endpoint:
    return chosen_endpoint(understood(line), {"HOME": "/nowhere", **environment}, SystemClock().now)


def kubeconfig(folder: Path, server: str, **cluster: str) -> Path:
    file = folder / "config"
    document = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": server, **cluster}}],
        "users": [{"name": "u", "user": {"token": "secret"}}],
    }
    file.write_text(yaml.safe_dump(document))
    return file


@pytest.mark.parametrize("line", ["--master 10.0.0.1:8080", "--master http://10.0.0.1:8080/"])
def test_a_server_alone_is_spoken_to_by_plain_http(line: str) -> None:
    found = chosen(line)
    assert (found.url, found.trust, found.login) == ("http://10.0.0.1:8080", None, None)


def test_a_server_alone_may_ask_for_https() -> None:
    found = chosen("--server https://10.0.0.1")
    assert found.url == "https://10.0.0.1"
    assert found.trust is not None
    assert found.trust.verified


def test_a_bare_server_gets_the_credentials_of_a_context_only_as_safely_as_its_own(tmp_path: Path) -> None:
    safe = kubeconfig(tmp_path, "https://a:6443")
    found = chosen(f"--master 10.0.0.1:6443 --kubeconfig {safe}")
    assert found.url == "https://10.0.0.1:6443"
    assert found.trust is not None
    assert found.login is not None
    assert chosen(f"--kubeconfig {safe}").url == "https://a:6443"
    assert chosen(f"--master http://b --kubeconfig {safe}").trust is None
    plain = kubeconfig(tmp_path, "http://a:8080")
    assert chosen(f"--master 10.0.0.1:6443 --kubeconfig {plain}").url == "http://10.0.0.1:6443"


def test_another_server_keeps_the_proxy_of_its_context_and_not_that_of_another_scheme(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("https_proxy", "http://for-https")
    monkeypatch.setenv("http_proxy", "http://for-http")
    monkeypatch.setenv("no_proxy", "")
    theirs = kubeconfig(tmp_path, "https://a", **{"proxy-url": "http://own"})
    assert chosen(f"--master b --kubeconfig {theirs}").proxy == "http://own"
    nobodys = kubeconfig(tmp_path, "https://a")
    assert chosen(f"--master http://b --kubeconfig {nobodys}").proxy == "http://for-http"
    assert chosen(f"--master 127.0.0.1:80 --kubeconfig {nobodys}").proxy is None


def test_nobody_named_any_cluster() -> None:
    with pytest.raises(NoCluster):
        chosen("")


def test_a_mistake_in_a_kubeconfig_is_told_though_a_server_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such file"):
        chosen(f"--master a:1 --kubeconfig {tmp_path / 'none'}")


IN_A_POD = {"KUBERNETES_SERVICE_HOST": "10.1.1.1", "KUBERNETES_SERVICE_PORT": "443"}


@pytest.fixture
def pod(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """This process runs in a pod."""
    account = tmp_path / "account"
    account.mkdir()
    (account / "token").write_text("secret")
    (account / "ca.crt").write_bytes(make_pair("cluster").certificate)
    for module in (cluster_choice, config):
        monkeypatch.setattr(module, "SERVICE_ACCOUNT", account)


def test_a_pod_is_chosen_or_not_as_asked(pod: None, tmp_path: Path) -> None:
    other = kubeconfig(tmp_path, "http://other")
    assert chosen("", **IN_A_POD).url == "https://10.1.1.1:443"
    assert chosen("--run-in-cluster", **IN_A_POD, KUBECONFIG=str(other)).url == "https://10.1.1.1:443"
    assert chosen("--run-in-cluster=false", **IN_A_POD, KUBECONFIG=str(other)).url == "http://other"
    assert chosen("--master 10.2.2.2:6443", **IN_A_POD).url == "https://10.2.2.2:6443"
    with pytest.raises(NoCluster):
        chosen("--run-in-cluster=false", **IN_A_POD)


def test_only_a_pod_runs_in_a_cluster() -> None:
    with pytest.raises(NotPossibleHere, match="name a kubeconfig instead"):
        chosen("--run-in-cluster")


@pytest.mark.parametrize("option", ["--kubeconfig", "--context"])
def test_a_pod_needs_no_kubeconfig(option: str) -> None:
    with pytest.raises(UserError, match=f"--run-in-cluster and {option} exclude each other"):
        chosen(f"--run-in-cluster {option} x")


def test_the_autoscaler_is_fair_unless_told_otherwise() -> None:
    assert autoscale_of(understood("")) == Options()
    assert autoscale_of(understood("--autoscale off")) == Options(policy="")
    told = autoscale_of(understood("--autoscale goodput,recommend --autoscale-period 2s --autoscale-cooldown 0"))
    assert (told.policy, told.only_advice, told.period) == ("goodput", True, timedelta(seconds=2))
    assert (told.pace.cooldown, told.pace.freeze) == (0.0, 300.0)
    advised = autoscale_of(understood("--autoscale-recommend"))
    assert (advised.policy, advised.only_advice) == ("fair", True)


@pytest.mark.parametrize("line", ["--max-load 0.9", "--max_load_desired=0.9", "-max_load_desired 0.9 -v=4"])
def test_the_load_is_spelled_as_the_old_autoscaler_did(line: str) -> None:
    assert understood(line).max_load == 0.9


@pytest.mark.parametrize(
    ("line", "problem"),
    [("--autoscale best", "none of fair, edl"), ("--max-load 97", "not a part"), ("--max-load x", "not a part")],
)
def test_a_wrong_word_for_the_autoscaler_is_explained(line: str, problem: str) -> None:
    with pytest.raises(ArgumentError, match=problem):
        understood(line)
