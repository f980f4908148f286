"""Options of the operator; names by which other operators know them are understood, too."""

from __future__ import annotations

import re
import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pliant.cli.input.kinds_option import add_kinds_option
from pliant.cli.input.local_cluster_options import parse_duration_option, parse_port, parse_positive_int

if TYPE_CHECKING:
    from pliant.model.operator_config import OperatorConfig

DEFAULT_LEASE_NAME = "pliant-operator"
ListenAddress = tuple[str | None, int]
"""A host, or every address of this machine; and a port."""


def add_cluster_options(parser: ArgumentParser) -> None:
    """Let people choose the cluster."""
    group = parser.add_argument_group("cluster")
    group.add_argument("--kubeconfig", type=Path, metavar="FILE", help="how to reach the cluster")
    group.add_argument("--context", metavar="NAME", help="which context of the kubeconfig (the current one)")
    group.add_argument(
        "--server",
        "--master",
        type=_parse_server_url,
        metavar="URL",
        help="the API server (that of the context); HOST:PORT alone is spoken to as that one is, "
        "and by plain HTTP when there is no context",
    )
    group.add_argument(
        "--run-in-cluster",
        **boolean_flag(default=None),
        help="true: only as the pod this runs in; false: never so (whichever is there)",
    )


def add_controller_options(parser: ArgumentParser) -> None:
    """Let people choose the jobs, and how many are worked on."""
    group = parser.add_argument_group("work")
    group.add_argument(
        "--namespace",
        type=_parse_namespace,
        action="append",
        default=[],
        dest="namespaces",
        metavar="NAME",
        help="only the jobs of this namespace; say it again for another (all)",
    )
    add_kinds_option(group)
    group.add_argument("--install-crds", action="store_true", help="install or update the definitions first (no)")
    group.add_argument(
        "--workers",
        "--thread-num",
        type=parse_positive_int,
        default=16,
        metavar="N",
        help="jobs looked at at a time (16)",
    )
    group.add_argument(
        "--max-writes",
        type=parse_positive_int,
        default=64,
        metavar="N",
        help="writes in flight at a time at most; fewer while the API server turns some away (64)",
    )
    group.add_argument(
        "--resync-period",
        type=parse_duration_or_zero,
        metavar="TIME",
        help="understood and not needed: every change is watched, and nothing is done periodically",
    )


def add_timeout_options(parser: ArgumentParser) -> None:
    """Let people say how long to be patient with a cluster, on behalf of all jobs."""
    group = parser.add_argument_group("patience")
    spans: dict[str, Any] = {"metavar": "TIME"}
    group.add_argument(
        "--creating-duration-period",
        type=parse_duration_option,
        default=timedelta(minutes=15),
        **spans,
        help="how long a container may fail to be created before its pod is made anew (15m)",
    )
    group.add_argument(
        "--creating-restart-period",
        type=parse_duration_or_zero,
        default=timedelta(hours=1),
        **spans,
        help="for how long pods are made anew on that account, all in all; 0, where other operators start, "
        "is never (1h)",
    )
    group.add_argument(
        "--enable-creating-failed",
        **boolean_flag(),
        help="fail the job when that is over, instead of waiting on (false)",
    )
    group.add_argument(
        "--node-grace-period",
        type=parse_duration_or_zero,
        default=timedelta(seconds=10),
        **spans,
        help="how long a node may be away before its pods count as lost (10s)",
    )


def add_plan_retention_options(parser: ArgumentParser) -> None:
    """Let people say how long finished plans of jobs' masters are kept."""
    group = parser.add_argument_group("plans of jobs that have a master")
    group.add_argument(
        "--plan-history",
        type=_parse_count,
        default=10,
        metavar="N",
        help="finished plans of masters kept for each job (10)",
    )
    group.add_argument(
        "--plan-life",
        type=parse_duration_or_zero,
        default=timedelta(minutes=30),
        metavar="TIME",
        help="how long they are kept at most (30m)",
    )


def add_master_options(parser: ArgumentParser) -> None:
    """Let people say what runs the masters of jobs that name none."""
    group = parser.add_argument_group("masters of jobs that name no image")
    group.add_argument(
        "--master-image",
        default="",
        metavar="IMAGE",
        help="with this Pliant in it, where nodes find it (none: they run this Python, as on an embedded cluster)",
    )


def operator_config(args: Namespace) -> OperatorConfig:
    """What these options lay down for all jobs."""
    from pliant.model.operator_config import OperatorConfig

    image: str = getattr(args, "master_image", "")
    return OperatorConfig(
        plan_history_limit=args.plan_history,
        plan_ttl=args.plan_life,
        master_image=image,
        master_command=OperatorConfig().master_command if image else local_master_command(),
        creation_timeout=args.creating_duration_period,
        creation_retry_window=args.creating_restart_period,
        should_fail_on_creation=args.enable_creating_failed,
        node_grace_period=args.node_grace_period,
    )


def local_master_command() -> tuple[str, ...]:
    """What starts a job's master where images are not run: the Python that runs this."""
    return sys.executable, "-m", "pliant.master"


def add_log_options(parser: ArgumentParser) -> None:
    """Let people choose what is told, and how."""
    from pliant.runtime.log_setup import DEBUG_VERBOSITY, LOG_FORMATS

    group = parser.add_argument_group("log, on the standard error")
    group.add_argument("--log-format", choices=LOG_FORMATS, default="text", help="text or json (text)")
    group.add_argument(
        "-v",
        "--v",
        type=_parse_verbosity,
        default=0,
        dest="verbosity",
        metavar="N",
        help=f"from {DEBUG_VERBOSITY} on, say more (0)",
    )
    group.add_argument("--logtostderr", **boolean_flag(), help="understood and not needed: it always is")


def add_metrics_options(parser: ArgumentParser) -> None:
    """Let monitors and probes look in."""
    group = parser.add_argument_group("monitoring")
    kind: dict[str, Any] = {"type": _parse_listen_address, "metavar": "[HOST]:PORT"}
    served = "serve /metrics, /healthz and /readyz there; a bare port is on 127.0.0.1 (nowhere)"
    group.add_argument("--metrics-bind-address", **kind, help=served)
    group.add_argument("--health-probe-bind-address", **kind, help="serve the same there, too (nowhere)")


def add_report_options(parser: ArgumentParser) -> None:
    """Let members report how their training goes."""
    group = parser.add_argument_group("reports")
    group.add_argument(
        "--report-bind-address",
        type=_parse_listen_address,
        metavar="[HOST]:PORT",
        help="take reports of members there; a bare port is on 127.0.0.1 (nowhere)",
    )
    group.add_argument(
        "--report-url",
        type=_parse_server_url,
        metavar="URL",
        help="by what address members reach it, as http://pliant-operator.pliant-system.svc:8082",
    )


def add_lease_options(parser: ArgumentParser) -> None:
    """Let several operators agree on one."""
    group = parser.add_argument_group("leader election")
    group.add_argument("--leader-elect", **boolean_flag(), help="work only while holding a lease (false)")
    spans = {
        "lease-duration": "after this long others take over from a dead leader (15s)",
        "renew-deadline": "after this long a leader that cannot renew its lease stops (2/3 of the duration)",
        "retry-period": "how often the lease is renewed (2/15 of the duration)",
    }
    for name, told in spans.items():
        group.add_argument(f"--{name}", f"--leader-elect-{name}", type=parse_duration_option, metavar="TIME", help=told)
    names = {
        "name": f"of the lease ({DEFAULT_LEASE_NAME})",
        "namespace": "of the lease (the one worked in, or one's own)",
    }
    for name, told in names.items():
        group.add_argument(f"--lease-{name}", f"--leader-elect-resource-{name}", metavar="NAME", help=told)
    parser.set_defaults(lease_duration=parse_duration_option("15s"), lease_name=DEFAULT_LEASE_NAME)


def _parse_listen_address(text: str) -> ListenAddress | None:
    """Where to listen; `0` means nowhere."""
    if text == "0":
        return None
    host, colon, number = text.rpartition(":")
    return (host.strip("[]") or None if colon else "127.0.0.1"), parse_port(number)


def _parse_server_url(text: str) -> str:
    """An address, with or without its scheme."""
    from urllib.parse import urlsplit

    try:
        address = urlsplit(text if "://" in text else f"http://{text}")
        is_one = address.scheme in ("http", "https") and address.hostname and address.port != 0
    except ValueError:  # what stands where the port belongs is none
        is_one = False
    if not is_one:
        raise ArgumentTypeError(f"`{text}` is not an address; write https://HOST:PORT or HOST:PORT")
    return text


def _parse_namespace(text: str) -> str:
    # An empty one is most often a variable that nobody set; to take it for all of them would surprise.
    if not re.fullmatch(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", text):
        raise ArgumentTypeError(f"`{text}` is not a namespace; leave the option out to work in all of them")
    return text


def boolean_flag(default: bool | None = False) -> dict[str, Any]:
    """An option that is true when it is named, and may say so or the contrary: `--leader-elect=false`."""
    return {"type": _parse_bool, "nargs": "?", "const": True, "default": default, "metavar": "true"}


def _parse_bool(text: str) -> bool:
    """True or false in every spelling that Go knows."""
    if text.lower() not in ("true", "t", "1", "false", "f", "0"):
        raise ArgumentTypeError(f"`{text}` is neither true nor false")
    return text.lower() in ("true", "t", "1")


def parse_duration_or_zero(text: str) -> timedelta:
    """A span of time that may be none at all."""
    from pliant.cli.durations import parse_duration
    from pliant.errors import UserError

    try:
        return parse_duration(text, allow_zero=True)
    except UserError as error:
        raise ArgumentTypeError(str(error)) from None


def _parse_count(text: str) -> int:
    if not text.isascii() or not text.isdigit():
        raise ArgumentTypeError(f"`{text}` is not a number of plans; write a whole number, as 0 or 10")
    return int(text)


def _parse_verbosity(text: str) -> int:
    if not text.isascii() or not text.isdigit():
        raise ArgumentTypeError(f"`{text}` is not a level; write a whole number, as 0 or 4")
    return int(text)
