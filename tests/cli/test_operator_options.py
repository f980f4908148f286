"""The operator understands the command lines of those it replaces."""

from __future__ import annotations

import sys
from argparse import ArgumentError, ArgumentParser, Namespace
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
import yaml

from pliant.cli.cluster import operator_endpoint
from pliant.cli.cluster.operator_endpoint import choose_endpoint
from pliant.cli.commands.admin.operator import configure
from pliant.cli.input.autoscale_options import autoscale_options
from pliant.cli.input.operator_options import operator_config
from pliant.cli.main import main
from pliant.controllers.autoscale.options import AutoscaleOptions
from pliant.errors import NoCluster, UnsupportedEnvironment, UserError
from pliant.kube import client_config
from pliant.kube.transport.http import ApiServerEndpoint
from pliant.model.operator_config import OperatorConfig
from pliant.runtime.clock import SystemClock
from tests.kube.certificates import make_pair

KNOWN_LINE = (
    "--master 10.0.0.1:8080 --v 4 --thread-num 1000 --logtostderr --leader-elect=true --enable-creating-failed=true"
)

HERE = OperatorConfig(master_command=(sys.executable, "-m", "pliant.master"))
"""What holds when nothing is said."""


def understood(line: str) -> Namespace:
    parser = ArgumentParser(allow_abbrev=False, exit_on_error=False)
    configure(parser)
    return parser.parse_args(line.split())


def test_a_known_command_line_is_understood() -> None:
    args = understood(KNOWN_LINE)
    assert (args.server, args.verbosity, args.workers) == ("10.0.0.1:8080", 4, 1000)
    assert (args.leader_elect, operator_config(args)) == (True, replace(HERE, should_fail_on_creation_timeout=True))


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
    assert operator_config(understood("")) == HERE
    assert OperatorConfig().creation_retry_window == timedelta(hours=1)
    args = understood(
        "--creating-restart-period 1h30m --creating-duration-period=1.5h --enable-creating-failed"
        " --node-grace-period 500ms --resync-period 10s"
    )
    assert operator_config(args) == replace(
        HERE,
        container_creation_timeout=timedelta(hours=1.5),
        creation_retry_window=timedelta(hours=1.5),
        should_fail_on_creation_timeout=True,
        node_grace_period=timedelta(seconds=0.5),
    )


def test_masters_run_this_python_unless_an_image_is_named() -> None:
    assert operator_config(understood("")).master_command == (sys.executable, "-m", "pliant.master")
    named = operator_config(understood("--master-image registry.example/pliant:1 --plan-history 3 --plan-ttl 5m"))
    assert (named.master_image, named.master_command[0]) == ("registry.example/pliant:1", "python")
    assert (named.plan_history_limit, named.plan_ttl) == (3, timedelta(minutes=5))


def test_no_patience_at_all_is_a_choice() -> None:
    rules = operator_config(understood("--creating-restart-period 0 --node-grace-period 0s --resync-period 0"))
    assert (rules.creation_retry_window, rules.node_grace_period) == (timedelta(0), timedelta(0))


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("--creating-duration-period 0", "--creating-duration-period: `0` is not a duration; write 30s, 5m or 1h30m"),
        ("--node-grace-period soon", "--node-grace-period: `soon` is not a duration; write 30s, 5m or 1h30m, or 0"),
        ("--namespace=", "--namespace: `` is not a valid namespace; use a-z, 0-9 and `-`, at most 63 characters"),
        ("--namespace A", "--namespace: `A` is not a valid namespace; use a-z, 0-9 and `-`, at most 63 characters"),
        ("--v loud", "-v/--v: `loud` is not a non-negative integer"),
        ("--leader-elect=maybe", "--leader-elect: `maybe` is neither true nor false"),
        ("--thread-num 0", "--workers/--thread-num: `0` is not a positive integer"),
        ("--master a:b", "--server/--master: `a:b` is not a URL; write https://HOST:PORT or HOST:PORT"),
        ("--master ftp://a", "--server/--master: `ftp://a` is not a URL; write https://HOST:PORT or HOST:PORT"),
        ("--master :80", "--server/--master: `:80` is not a URL; write https://HOST:PORT or HOST:PORT"),
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
    for words in ("cluster:", "controller:", "timeouts:", "leader election:", "monitoring:", "(15m)", "(1h)", "(10s)"):
        assert words in text


# Which server, and how it is spoken to.


def chosen(line: str, **environment: str) -> ApiServerEndpoint:
    return choose_endpoint(understood(line), {"HOME": "/nowhere", **environment}, SystemClock().now)


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
    assert (found.url, found.tls, found.credentials) == ("http://10.0.0.1:8080", None, None)


def test_a_server_alone_may_ask_for_https() -> None:
    found = chosen("--server https://10.0.0.1")
    assert found.url == "https://10.0.0.1"
    assert found.tls is not None
    assert found.tls.verify


def test_a_bare_server_gets_the_credentials_of_a_context_only_as_safely_as_its_own(tmp_path: Path) -> None:
    safe = kubeconfig(tmp_path, "https://a:6443")
    found = chosen(f"--master 10.0.0.1:6443 --kubeconfig {safe}")
    assert found.url == "https://10.0.0.1:6443"
    assert found.tls is not None
    assert found.credentials is not None
    assert chosen(f"--kubeconfig {safe}").url == "https://a:6443"
    assert chosen(f"--master http://b --kubeconfig {safe}").tls is None
    plain = kubeconfig(tmp_path, "http://a:8080")
    assert chosen(f"--master 10.0.0.1:6443 --kubeconfig {plain}").url == "http://10.0.0.1:6443"


def test_another_server_keeps_the_proxy_of_its_context_and_not_that_of_another_scheme(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("https_proxy", "http://for-https")
    monkeypatch.setenv("http_proxy", "http://for-http")
    monkeypatch.setenv("no_proxy", "")
    theirs = kubeconfig(tmp_path, "https://a", **{"proxy-url": "http://own"})
    assert chosen(f"--master b --kubeconfig {theirs}").proxy_url == "http://own"
    nobodys = kubeconfig(tmp_path, "https://a")
    assert chosen(f"--master http://b --kubeconfig {nobodys}").proxy_url == "http://for-http"
    assert chosen(f"--master 127.0.0.1:80 --kubeconfig {nobodys}").proxy_url is None


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
    for module in (operator_endpoint, client_config):
        monkeypatch.setattr(module, "SERVICE_ACCOUNT_DIR", account)


def test_a_pod_is_chosen_or_not_as_asked(pod: None, tmp_path: Path) -> None:
    other = kubeconfig(tmp_path, "http://other")
    assert chosen("", **IN_A_POD).url == "https://10.1.1.1:443"
    assert chosen("--run-in-cluster", **IN_A_POD, KUBECONFIG=str(other)).url == "https://10.1.1.1:443"
    assert chosen("--run-in-cluster=false", **IN_A_POD, KUBECONFIG=str(other)).url == "http://other"
    assert chosen("--master 10.2.2.2:6443", **IN_A_POD).url == "https://10.2.2.2:6443"
    with pytest.raises(NoCluster):
        chosen("--run-in-cluster=false", **IN_A_POD)


def test_only_a_pod_runs_in_a_cluster() -> None:
    with pytest.raises(UnsupportedEnvironment, match="use --kubeconfig instead"):
        chosen("--run-in-cluster")


@pytest.mark.parametrize("option", ["--kubeconfig", "--context"])
def test_a_pod_needs_no_kubeconfig(option: str) -> None:
    with pytest.raises(UserError, match=f"--run-in-cluster and {option} are mutually exclusive"):
        chosen(f"--run-in-cluster {option} x")


def test_the_autoscaler_is_fair_unless_told_otherwise() -> None:
    assert autoscale_options(understood("")) == AutoscaleOptions()
    assert autoscale_options(understood("--autoscale off")) == AutoscaleOptions(policy="")
    told = autoscale_options(understood("--autoscale goodput,recommend --autoscale-period 2s --autoscale-cooldown 0"))
    assert (told.policy, told.is_advice_only, told.period) == ("goodput", True, timedelta(seconds=2))
    assert (told.cooldowns.opposite_direction_cooldown, told.cooldowns.manual_edit_freeze) == (0.0, 300.0)
    advised = autoscale_options(understood("--autoscale-recommend"))
    assert (advised.policy, advised.is_advice_only) == ("fair", True)


@pytest.mark.parametrize("line", ["--max-load 0.9", "--max_load_desired=0.9", "-max_load_desired 0.9 -v=4"])
def test_the_load_is_spelled_as_the_old_autoscaler_did(line: str) -> None:
    assert understood(line).max_load == 0.9


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("--autoscale best", "not one of fair, edl"),
        ("--max-load 97", "not a fraction"),
        ("--max-load x", "not a fraction"),
    ],
)
def test_a_wrong_word_for_the_autoscaler_is_explained(line: str, problem: str) -> None:
    with pytest.raises(ArgumentError, match=problem):
        understood(line)
