"""Options by which `pliant install` and `pliant uninstall` mean the same installation."""

from __future__ import annotations

import re
import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pliant.cli.cluster.operator_manifests import OperatorInstallation

DEFAULT_OPERATOR_NAMESPACE = "pliant-system"


def add_namespace_options(parser: ArgumentParser) -> None:
    """Let people say where the operator is and where jobs are."""
    parser.add_argument(
        "--namespace",
        type=parse_namespace,
        default=DEFAULT_OPERATOR_NAMESPACE,
        metavar="NAME",
        help=f"where the operator is ({DEFAULT_OPERATOR_NAMESPACE})",
    )
    parser.add_argument(
        "--watch-namespace",
        type=parse_namespace,
        action="append",
        default=[],
        dest="watched",
        metavar="NAME",
        help="only the jobs of this namespace, with rights there alone; say it again for another (all)",
    )


def installation_from_options(args: Namespace, **other_fields: Any) -> OperatorInstallation:
    """The installation that the options mean."""
    from pliant.cli.cluster.operator_manifests import OperatorInstallation
    from pliant.cli.input.kinds_option import choose_kinds

    watched = tuple(dict.fromkeys(args.watched))
    return OperatorInstallation(
        namespace=args.namespace, watched_namespaces=watched, frontends=choose_kinds(args.kinds), **other_fields
    )


def parse_namespace(text: str) -> str:
    """The name of a namespace, as an option's type."""
    if not re.fullmatch(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", text):
        raise ArgumentTypeError(f"`{text}` cannot name a namespace; use a-z, 0-9 and `-`, 63 of them at most")
    return text


def print_manifests(manifests: Iterable[dict[str, Any]]) -> None:
    """Print objects as YAML, in this order."""
    from pliant.cli.output.manifest_yaml import write_manifests

    write_manifests(manifests, sys.stdout)
