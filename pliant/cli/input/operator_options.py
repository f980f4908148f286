"""Options of the operator, including the option names of other operators."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pliant.cli.input.kinds_option import add_kinds_option
from pliant.cli.input.local_cluster_options import (
    parse_duration_option,
    parse_namespace_name,
    parse_non_negative_int,
    parse_port,
    parse_positive_int,
)
from pliant.runtime.log_setup import DEBUG_VERBOSITY, LOG_FORMATS

if TYPE_CHECKING:
    from argparse import _ActionsContainer

    from pliant.model.operator_config import OperatorConfig

DEFAULT_LEASE_NAME = "pliant-operator"
ListenAddress = tuple[str | None, int]  # a host (None: all addresses) and a port


def add_api_server_options(parser: ArgumentParser) -> None:
    group = parser.add_argument_group("cluster")
    group.add_argument("--kubeconfig", type=Path, metavar="FILE", help="Path of the kubeconfig file")
    group.add_argument("--context", metavar="NAME", help="Context of the kubeconfig (default: the current context)")
    server_help = "URL of the API server (default: that of the context); HOST:PORT uses the scheme of the context"
    group.add_argument("--server", "--master", type=_parse_server_url, metavar="URL", help=server_help)
    in_cluster_help = "Use the service account of this pod: true or false (default: if there is no kubeconfig)"
    group.add_argument("--run-in-cluster", **boolean_option_arguments(default=None), help=in_cluster_help)


def add_controller_options(parser: ArgumentParser) -> None:
    group = parser.add_argument_group("controller")
    repeated: dict[str, Any] = {"action": "append", "default": [], "dest": "namespaces", "metavar": "NAME"}
    namespace_help = "Namespace to watch; can be repeated (default: all)"
    group.add_argument("--namespace", type=parse_namespace_name, **repeated, help=namespace_help)
    add_kinds_option(group)
    group.add_argument("--install-crds", action="store_true", help="Install or update the CRDs at the start")
    number: dict[str, Any] = {"type": parse_positive_int, "metavar": "N"}
    group.add_argument("--workers", "--thread-num", **number, default=64, help="Jobs reconciled concurrently (64)")
    writes_help = "Concurrent writes; fewer while the API server rejects requests (64)"
    group.add_argument("--max-writes", **number, default=64, help=writes_help)
    resync_help = "Accepted and ignored: the operator watches all changes"
    group.add_argument("--resync-period", type=parse_duration_or_zero, metavar="TIME", help=resync_help)


def add_duration_option(
    group: _ActionsContainer, name: str, default: str, text: str, *, allow_zero: bool = True
) -> None:
    """Declare an option for a duration; the help names the default."""
    parse = parse_duration_or_zero if allow_zero else parse_duration_option
    group.add_argument(name, type=parse, default=parse(default), metavar="TIME", help=f"{text} ({default})")


def add_timeout_options(parser: ArgumentParser) -> None:
    group = parser.add_argument_group("timeouts")
    creation_help = "Time after which a pod whose container cannot be created is recreated"
    add_duration_option(group, "--creating-duration-period", "15m", creation_help, allow_zero=False)
    retry_help = "Total time during which such pods are recreated; 0 means never"
    add_duration_option(group, "--creating-restart-period", "1h", retry_help)
    fail_help = "Fail the job after that time instead of waiting (false)"
    group.add_argument("--enable-creating-failed", **boolean_option_arguments(), help=fail_help)
    node_help = "Time after which the pods of a NotReady node count as lost"
    add_duration_option(group, "--node-grace-period", "10s", node_help)


def add_plan_retention_options(parser: ArgumentParser) -> None:
    group = parser.add_argument_group("scale plans")
    history_help = "Finished plans kept for each job (10)"
    group.add_argument("--plan-history", type=parse_non_negative_int, default=10, metavar="N", help=history_help)
    add_duration_option(group, "--plan-ttl", "30m", "Time for which finished plans are kept")


def add_job_master_options(parser: ArgumentParser) -> None:
    group = parser.add_argument_group("masters of ElasticJobs")
    image_help = "Image with Pliant for masters without an image (default: run the current Python)"
    group.add_argument("--master-image", default="", metavar="IMAGE", help=image_help)


def operator_config(args: Namespace) -> OperatorConfig:
    from pliant.model.operator_config import OperatorConfig

    image: str = getattr(args, "master_image", "")
    return OperatorConfig(
        plan_history_limit=args.plan_history,
        plan_ttl=args.plan_ttl,
        master_image=image,
        master_command=OperatorConfig().master_command if image else local_master_command(),
        container_creation_timeout=args.creating_duration_period,
        creation_retry_window=args.creating_restart_period,
        should_fail_on_creation_timeout=args.enable_creating_failed,
        node_grace_period=args.node_grace_period,
    )


def local_master_command() -> tuple[str, ...]:
    """Return the command of a job's master where images are not used: the current Python."""
    return sys.executable, "-m", "pliant.master"


def add_log_options(parser: ArgumentParser) -> None:
    group = parser.add_argument_group("logging")
    group.add_argument("--log-format", choices=LOG_FORMATS, default="text", help="Log format: text or json (text)")
    number: dict[str, Any] = {"type": parse_non_negative_int, "default": 0, "dest": "verbosity", "metavar": "N"}
    verbosity_help = f"Log level; {DEBUG_VERBOSITY} or higher enables debug messages (0)"
    group.add_argument("-v", "--v", **number, help=verbosity_help)
    group.add_argument(
        "--logtostderr", **boolean_option_arguments(), help="Accepted and ignored: logs always go to standard error"
    )


def add_monitoring_options(parser: ArgumentParser) -> None:
    group = parser.add_argument_group("monitoring")
    address: dict[str, Any] = {"type": _parse_listen_address, "metavar": "[HOST]:PORT"}
    metrics_help = "Address of /metrics, /healthz and /readyz; a port alone is on 127.0.0.1 (default: none)"
    group.add_argument("--metrics-bind-address", **address, help=metrics_help)
    group.add_argument("--health-probe-bind-address", **address, help="Second address of the same pages")
    report_help = "Address for progress reports of replicas (default: none)"
    group.add_argument("--report-bind-address", **address, help=report_help)
    url_help = "URL of that address for replicas, such as http://pliant-operator.pliant-system.svc:8082"
    group.add_argument("--report-url", type=_parse_server_url, metavar="URL", help=url_help)


def add_lease_options(parser: ArgumentParser) -> None:
    group = parser.add_argument_group("leader election")
    group.add_argument(
        "--leader-elect", **boolean_option_arguments(), help="Reconcile only while holding the leader lease (false)"
    )
    spans = {
        "lease-duration": "Time after which another operator takes over from a dead leader (15s)",
        "renew-deadline": "Time after which a leader that cannot renew its lease stops (2/3 of the duration)",
        "retry-period": "Time between renewals of the lease (2/15 of the duration)",
    }
    for name, text in spans.items():
        group.add_argument(f"--{name}", f"--leader-elect-{name}", type=parse_duration_option, metavar="TIME", help=text)
    names = {
        "name": f"Name of the lease ({DEFAULT_LEASE_NAME})",
        "namespace": "Namespace of the lease (default: the watched namespace, or that of the operator)",
    }
    for name, text in names.items():
        group.add_argument(f"--lease-{name}", f"--leader-elect-resource-{name}", metavar="NAME", help=text)
    parser.set_defaults(lease_duration=parse_duration_option("15s"), lease_name=DEFAULT_LEASE_NAME)


def _parse_listen_address(text: str) -> ListenAddress | None:
    """Parse `[HOST]:PORT` or a port on 127.0.0.1; `0` means not to listen."""
    if text == "0":
        return None
    host, colon, number = text.rpartition(":")
    return (host.strip("[]") or None if colon else "127.0.0.1"), parse_port(number)


def _parse_server_url(text: str) -> str:
    from urllib.parse import urlsplit

    try:
        address = urlsplit(text if "://" in text else f"http://{text}")
        is_valid = address.scheme in ("http", "https") and address.hostname and address.port != 0
    except ValueError:  # the port is not a number
        is_valid = False
    if not is_valid:
        raise ArgumentTypeError(f"`{text}` is not a URL; write https://HOST:PORT or HOST:PORT")
    return text


def boolean_option_arguments(default: bool | None = False) -> dict[str, Any]:
    """Return the arguments of a Go-style boolean option: `--leader-elect`, `--leader-elect=false`."""
    return {"type": _parse_bool, "nargs": "?", "const": True, "default": default, "metavar": "true"}


def _parse_bool(text: str) -> bool:
    """Parse a boolean in the spellings of Go."""
    if text.lower() not in ("true", "t", "1", "false", "f", "0"):
        raise ArgumentTypeError(f"`{text}` is neither true nor false")
    return text.lower() in ("true", "t", "1")


def parse_duration_or_zero(text: str) -> timedelta:
    return parse_duration_option(text, allow_zero=True)
