"""Options of the commands that start a cluster on this machine."""

from __future__ import annotations

import re
from argparse import ArgumentParser, ArgumentTypeError, BooleanOptionalAction, Namespace
from datetime import timedelta
from os.path import normpath
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pliant.embedded.cluster import ClusterConfig

_MAX_PORT = 65535
MAX_NODES = 1000


def add_node_options(parser: ArgumentParser) -> None:
    """Let people choose the nodes of the cluster, and what their pods may reach."""
    nodes = parser.add_argument_group("nodes")
    nodes.add_argument("--nodes", type=_parse_node_count, default=1, metavar="N", help="how many (1)")
    nodes.add_argument("--node-cpu", type=parse_positive_int, metavar="N", help="CPUs of each (those of this machine)")
    nodes.add_argument(
        "--node-memory", type=_parse_memory, metavar="SIZE", help="memory of each, as 8Gi (this machine's)"
    )
    nodes.add_argument(
        "--node-gpu",
        type=_parse_count,
        metavar="N",
        help="nvidia.com/gpu of each (this machine's, shared out; else pretended)",
    )
    nodes.add_argument(
        "--mount",
        action="append",
        type=parse_mount,
        default=[],
        metavar="DIR:/PATH[:ro]",
        help="show a folder of this machine to every container at /PATH; may be repeated",
    )
    network = parser.add_argument_group("network")
    network.add_argument(
        "--network",
        choices=("private", "host"),
        default="",
        help="of pods: one of their own, or this machine's (private where namespaces are allowed)",
    )
    network.add_argument(
        "--egress", action=BooleanOptionalAction, default=True, help="pods may reach the world outside (yes)"
    )
    network.add_argument(
        "--allow-host-loopback", action="store_true", help="and what listens on 127.0.0.1 of this machine"
    )


def cluster_config(args: Namespace, data_dir: Path, *, workspace: Path, durable: bool, port: int = 0) -> ClusterConfig:
    """The cluster that the options ask for."""
    from pliant.embedded.agent.container.config import Mount
    from pliant.embedded.cluster import ClusterConfig
    from pliant.embedded.network.egress_connector import EgressPolicy

    for path in (data_dir, workspace):
        _check_utf8_path(path)
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
            Mount(target=shown.target, source=str(shown.source), readonly=shown.readonly, pod_owned=False)
            for shown in args.mount
        ),
        egress=EgressPolicy(allow_external=args.egress, allow_host_loopback=args.allow_host_loopback),
        network_mode=args.network,
    )


def _check_utf8_path(path: Path) -> None:
    """Refuse a path that is no text: it could not be told to anybody in JSON."""
    from pliant.errors import UserError

    try:
        str(path).encode()
    except UnicodeEncodeError:
        raise UserError(f"the path `{path}` is not valid UTF-8; rename the folder, or use another one") from None


def parse_port(text: str) -> int:
    """A port to listen on, as an option's type; 0 is any free one."""
    if not text.isascii() or not text.isdigit() or int(text) > _MAX_PORT:
        raise ArgumentTypeError(f"`{text}` is not a port; choose one from 1 to {_MAX_PORT}, or 0 for any free one")
    return int(text)


def parse_existing_dir(text: str) -> Path:
    """A folder that is there, as an option's type."""
    if not Path(text).is_dir():
        raise ArgumentTypeError(f"`{text}` is not a folder")
    return Path(text)


def current_dir() -> Path:
    """The folder this runs in."""
    from pliant.errors import UserError

    try:
        return Path.cwd()
    except FileNotFoundError:
        raise UserError("the folder you are in was deleted; go to another one (cd ..)") from None


class HostMount(NamedTuple):
    """A folder of this machine that containers see."""

    source: Path
    target: str
    readonly: bool


def parse_mount(text: str) -> HostMount:
    """A folder and where containers see it, as an option's type."""
    readonly = text.endswith(":ro")
    source, colon, target = text.removesuffix(":ro").removesuffix(":rw").rpartition(":")
    if not colon or not target.startswith("/"):
        raise ArgumentTypeError(f"`{text}` is not DIR:/PATH or DIR:/PATH:ro, with a whole path after the colon")
    if normpath(target) in ("/", "/proc", "/dev", "/sys"):
        raise ArgumentTypeError(f"`{target}` is needed by the container itself; choose a path such as /data")
    return HostMount(parse_existing_dir(source).absolute(), normpath(target), readonly)


def parse_duration_option(text: str) -> timedelta:
    """A span of time, as an option's type."""
    from pliant.cli.durations import parse_duration
    from pliant.errors import UserError

    try:
        return parse_duration(text)
    except UserError as error:
        raise ArgumentTypeError(str(error)) from None


def parse_positive_int(text: str) -> int:
    """A whole number above zero, as an option's type."""
    if not text.isascii() or not text.isdigit() or int(text) == 0:
        raise ArgumentTypeError(f"`{text}` is not a whole number above 0")
    return int(text)


def _parse_node_count(text: str) -> int:
    if parse_positive_int(text) > MAX_NODES:
        raise ArgumentTypeError(f"`{text}` nodes are too many for one machine; {MAX_NODES} can be pretended")
    return int(text)


def parse_namespace_name(text: str) -> str:
    """The name of a namespace, as an option's type."""
    if not is_dns_label(text):
        raise ArgumentTypeError(f"`{text}` cannot name a namespace; use a-z, 0-9 and -")
    return text


def is_dns_label(text: str) -> bool:
    """Whether Kubernetes would take a text for the name of a namespace."""
    return re.fullmatch(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", text) is not None


def _parse_count(text: str) -> int:
    return 0 if text == "0" else parse_positive_int(text)


def _parse_memory(text: str) -> str:
    if not re.fullmatch(r"[1-9]\d*([KMGT]i?|k)?", text):
        raise ArgumentTypeError(f"`{text}` is not an amount of memory; write 512Mi or 8Gi")
    return text
