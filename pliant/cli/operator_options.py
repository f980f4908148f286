"""Options of the operator; names by which other operators know them are understood, too."""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError
from pathlib import Path
from typing import Any

from pliant.cli.cluster_options import duration, port

LEASE = "pliant-operator"
Address = tuple[str | None, int]
"""A host, or every address of this machine; and a port."""


def add_cluster_options(parser: ArgumentParser) -> None:
    """Let people choose the cluster."""
    parser.add_argument("--kubeconfig", type=Path, metavar="FILE", help="how to reach the cluster")
    parser.add_argument("--context", metavar="NAME", help="which context of the kubeconfig")
    parser.add_argument("--server", "--master", metavar="URL", help="the API server (that of the context)")


def add_page_options(parser: ArgumentParser) -> None:
    """Let monitors and probes look in."""
    group = parser.add_argument_group("monitoring")
    kind: dict[str, Any] = {"type": _address, "metavar": "[HOST]:PORT"}
    served = "serve /metrics, /healthz and /readyz there; a bare port is on 127.0.0.1 (nowhere)"
    group.add_argument("--metrics-bind-address", **kind, help=served)
    group.add_argument("--health-probe-bind-address", **kind, help="serve the same there, too (nowhere)")


def add_lease_options(parser: ArgumentParser) -> None:
    """Let several operators agree on one."""
    group = parser.add_argument_group("leader election")
    switch: dict[str, Any] = {"type": _yes_or_no, "nargs": "?", "const": True, "default": False}
    group.add_argument("--leader-elect", **switch, metavar="true", help="work only while holding a lease")
    spans = {
        "lease-duration": "after this long others take over from a dead leader (15s)",
        "renew-deadline": "after this long a leader that cannot renew its lease stops (2/3 of the duration)",
        "retry-period": "how often the lease is renewed (2/15 of the duration)",
    }
    for name, told in spans.items():
        group.add_argument(f"--{name}", f"--leader-elect-{name}", type=duration, metavar="TIME", help=told)
    names = {"name": f"of the lease ({LEASE})", "namespace": "of the lease (the one worked in, or one's own)"}
    for name, told in names.items():
        group.add_argument(f"--lease-{name}", f"--leader-elect-resource-{name}", metavar="NAME", help=told)
    parser.set_defaults(lease_duration=duration("15s"), lease_name=LEASE)


def _address(text: str) -> Address | None:
    """Where to listen; `0` means nowhere."""
    if text == "0":
        return None
    host, colon, number = text.rpartition(":")
    return (host.strip("[]") or None if colon else "127.0.0.1"), port(number)


def _yes_or_no(text: str) -> bool:
    if text not in ("true", "false"):
        raise ArgumentTypeError(f"`{text}` is neither true nor false")
    return text == "true"
