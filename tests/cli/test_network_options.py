"""What pods may reach is chosen where a cluster is started."""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path

import pytest

from pliant.cli.cluster_options import add_node_options, cluster_config
from pliant.embedded.network.routes import Egress


@pytest.mark.parametrize(
    ("options", "egress"),
    [
        ([], Egress()),
        (["--no-egress"], Egress(outside=False)),
        (["--allow-host-loopback"], Egress(host_loopback=True)),
    ],
)
def test_options_say_what_pods_may_reach(options: list[str], egress: Egress) -> None:
    parser = ArgumentParser()
    add_node_options(parser)
    config = cluster_config(parser.parse_args(options), Path("/data"), workspace=Path("/work"), durable=False)
    assert config.egress == egress
