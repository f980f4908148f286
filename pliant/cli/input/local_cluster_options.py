"""Options of the commands that start a local cluster, and common option types."""

from __future__ import annotations

import os
import re
from argparse import ArgumentParser, ArgumentTypeError, BooleanOptionalAction, Namespace
from datetime import timedelta
from os.path import normpath
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pliant.cli.durations import parse_duration
from pliant.errors import UserError
from pliant.runtime.log_rotation import LogRotation

if TYPE_CHECKING:
    from pliant.embedded.cluster import ClusterConfig

_MAX_PORT = 65535
_DNS_DELAY_VARIABLE = "PLIANT_TEST_DNS_DELAY"
MAX_NODES = 1000


def add_local_cluster_options(parser: ArgumentParser) -> None:
    nodes = parser.add_argument_group("nodes")
    nodes.add_argument("--nodes", type=_parse_node_count, default=1, metavar="N", help="Number of nodes (1)")
    nodes.add_argument("--node-cpu", type=parse_positive_int, metavar="N", help="CPUs of each node (default: all)")
    nodes.add_argument("--node-memory", type=_parse_memory, metavar="SIZE", help="Memory of each node, such as 8Gi")
    gpu_help = "GPUs of each node; simulated if this machine has fewer"
    nodes.add_argument("--node-gpu", type=parse_non_negative_int, metavar="N", help=gpu_help)
    mount: dict[str, Any] = {"type": parse_mount, "action": "append", "default": [], "metavar": "DIR:/PATH[:ro]"}
    nodes.add_argument("--mount", **mount, help="Mount a directory into all containers; can be repeated")
    authorization = parser.add_argument_group("authorization")
    mode_help = "Who may use the API: RBAC (default), or AlwaysAllow for every pod and user of the cluster"
    authorization.add_argument("--authorization-mode", choices=("RBAC", "AlwaysAllow"), default="RBAC", help=mode_help)
    network = parser.add_argument_group("network")
    network_help = "Network of the pods (default: private if user namespaces are allowed)"
    network.add_argument("--network", choices=("private", "host"), default="", help=network_help)
    egress_help = "Allow pods to connect to external addresses (yes)"
    network.add_argument("--egress", action=BooleanOptionalAction, default=True, help=egress_help)
    loopback_help = "Allow pods to connect to 127.0.0.1 of this machine"
    network.add_argument("--allow-host-loopback", action="store_true", help=loopback_help)


def add_log_options(parser: ArgumentParser) -> None:
    logs = parser.add_argument_group("log")
    size_help = "Size at which the log file of the cluster is rotated (10Mi)"
    logs.add_argument("--log-max-size", type=_parse_log_size, metavar="SIZE", help=size_help)
    files_help = "Number of log files to keep, with the current one (3)"
    logs.add_argument("--log-max-files", type=parse_positive_int, metavar="N", help=files_help)


def log_rotation(args: Namespace) -> LogRotation:
    values = {"max_bytes": args.log_max_size, "max_files": args.log_max_files}
    return LogRotation(**{name: value for name, value in values.items() if value is not None})


def _parse_log_size(text: str) -> int:
    from pliant.schemas.quantity import parse_quantity

    try:
        size = int(parse_quantity(text))
    except ValueError as error:
        raise ArgumentTypeError(str(error)) from None
    if size < 1:
        raise ArgumentTypeError(f"{text!r} is not a positive size such as 10Mi")
    return size


def cluster_config(args: Namespace, data_dir: Path, *, workspace: Path, durable: bool, port: int = 0) -> ClusterConfig:
    from pliant.embedded.agent.container.config import Mount
    from pliant.embedded.apiserver.authorization.authorizer import AuthorizationMode
    from pliant.embedded.cluster import ClusterConfig
    from pliant.embedded.network.egress_connector import EgressPolicy

    for path in (data_dir, workspace):
        check_utf8_path(path)
    return ClusterConfig(
        data_dir=data_dir,
        node_count=args.nodes,
        node_cpu=args.node_cpu,
        node_memory=args.node_memory,
        node_gpu=args.node_gpu,
        durable=durable,
        port=port,
        workspace=workspace,
        mounts=tuple(
            Mount(target=mount.target, source=str(mount.source), readonly=mount.readonly, pod_owned=False)
            for mount in args.mount
        ),
        egress=EgressPolicy(allow_external=args.egress, allow_host_loopback=args.allow_host_loopback),
        network_mode=args.network,
        authorization_mode=AuthorizationMode(args.authorization_mode),
        dns_delay=_read_dns_delay(os.environ.get(_DNS_DELAY_VARIABLE, "")),
    )


def _read_dns_delay(text: str) -> float:
    try:
        return parse_duration(text).total_seconds() if text else 0.0
    except UserError as error:
        raise UserError(f"${_DNS_DELAY_VARIABLE}: {error}") from None


def check_utf8_path(path: Path) -> None:
    """Raise UserError for a path that JSON cannot represent."""

    try:
        str(path).encode()
    except UnicodeEncodeError:
        raise UserError(f"path `{path}` is not valid UTF-8; rename the directory, or use another one") from None


def parse_port(text: str) -> int:
    """Parse a port to listen on; 0 means any free port."""
    if not text.isascii() or not text.isdigit() or int(text) > _MAX_PORT:
        raise ArgumentTypeError(f"`{text}` is not a port; use a number from 1 to {_MAX_PORT}, or 0 for any free port")
    return int(text)


def add_workspace_option(parser: ArgumentParser) -> None:
    """Add --workspace to a command with files."""
    workspace_help = "Working directory of programs and root of hostPath volumes (default: the directory of FILE)"
    parser.add_argument("--workspace", type=parse_existing_dir, metavar="DIR", help=workspace_help)


def workspace_of(args: Namespace) -> Path | None:
    """Return the directory of --workspace or of the first file; None if that is standard input or another pipe."""
    if args.workspace is not None:
        return Path(args.workspace).resolve()
    first_file = Path(args.files[0])
    return first_file.absolute().parent.resolve() if first_file.is_file() else None


def parse_existing_dir(text: str) -> Path:
    if not Path(text).is_dir():
        raise ArgumentTypeError(f"`{text}` is not a directory")
    return Path(text)


def current_dir() -> Path:
    try:
        return Path.cwd()
    except FileNotFoundError:
        raise UserError("the current directory was deleted; change to another directory") from None


class HostMount(NamedTuple):
    """A directory of this machine that is mounted into containers."""

    source: Path
    target: str
    readonly: bool


def parse_mount(text: str) -> HostMount:
    """Parse `DIR:/PATH[:ro]`."""
    readonly = text.endswith(":ro")
    source, colon, target = text.removesuffix(":ro").removesuffix(":rw").rpartition(":")
    if not colon or not target.startswith("/"):
        raise ArgumentTypeError(f"`{text}` is not DIR:/PATH or DIR:/PATH:ro with an absolute path after the colon")
    if normpath(target) in ("/", "/proc", "/dev", "/sys"):
        raise ArgumentTypeError(f"`{target}` is reserved; use a path such as /data")
    return HostMount(parse_existing_dir(source).absolute(), normpath(target), readonly)


def parse_duration_option(text: str, *, allow_zero: bool = False) -> timedelta:
    try:
        return parse_duration(text, allow_zero=allow_zero)
    except UserError as error:
        raise ArgumentTypeError(str(error)) from None


def parse_positive_int(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) == 0:
        raise ArgumentTypeError(f"`{text}` is not a positive integer")
    return int(text)


def _parse_node_count(text: str) -> int:
    if parse_positive_int(text) > MAX_NODES:
        raise ArgumentTypeError(f"`{text}` is too large; at most {MAX_NODES} nodes can be simulated")
    return int(text)


def parse_namespace_name(text: str) -> str:
    if not is_dns_label(text):
        raise ArgumentTypeError(f"`{text}` is not a valid namespace; use a-z, 0-9 and `-`, at most 63 characters")
    return text


def is_dns_label(text: str) -> bool:
    return re.fullmatch(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", text) is not None


def parse_non_negative_int(text: str) -> int:
    if not text.isascii() or not text.isdigit():
        raise ArgumentTypeError(f"`{text}` is not a non-negative integer")
    return int(text)


def _parse_memory(text: str) -> str:
    if not re.fullmatch(r"[1-9]\d*([KMGT]i?|k)?", text):
        raise ArgumentTypeError(f"`{text}` is not a memory size; write 512Mi or 8Gi")
    return text
