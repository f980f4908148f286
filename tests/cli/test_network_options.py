"""What pods may reach and do is chosen where a cluster is started."""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path

import pytest

from pliant.cli.input.local_cluster_options import add_local_cluster_options, cluster_config
from pliant.embedded.network.egress_connector import EgressPolicy


@pytest.mark.parametrize(
    ("options", "egress"),
    [
        ([], EgressPolicy()),
        (["--no-egress"], EgressPolicy(allow_external=False)),
        (["--allow-host-loopback"], EgressPolicy(allow_host_loopback=True)),
    ],
)
def test_options_say_what_pods_may_reach(options: list[str], egress: EgressPolicy) -> None:
    parser = ArgumentParser()
    add_local_cluster_options(parser)
    config = cluster_config(parser.parse_args(options), Path("/data"), workspace=Path("/work"), durable=False)
    assert config.egress == egress


@pytest.mark.parametrize(("options", "mode"), [([], "RBAC"), (["--authorization-mode", "AlwaysAllow"], "AlwaysAllow")])
def test_an_option_says_whether_rights_are_checked(options: list[str], mode: str) -> None:
    parser = ArgumentParser()
    add_local_cluster_options(parser)
    config = cluster_config(parser.parse_args(options), Path("/data"), workspace=Path("/work"), durable=False)
    assert config.authorization_mode == mode
