"""Options of `pliant install` and `pliant uninstall`."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from pliant.cli.input.kinds_option import choose_kinds
from pliant.cli.input.local_cluster_options import parse_namespace_name

if TYPE_CHECKING:
    from pliant.cli.cluster.operator_manifests import OperatorInstallation

DEFAULT_OPERATOR_NAMESPACE = "pliant-system"


def add_namespace_options(parser: ArgumentParser) -> None:
    name: dict[str, Any] = {"type": parse_namespace_name, "metavar": "NAME"}
    namespace_help = f"Namespace of the operator ({DEFAULT_OPERATOR_NAMESPACE})"
    parser.add_argument("--namespace", **name, default=DEFAULT_OPERATOR_NAMESPACE, help=namespace_help)
    watch_help = "Namespace to watch, with permissions only there; can be repeated (default: all)"
    parser.add_argument("--watch-namespace", **name, action="append", default=[], dest="watched", help=watch_help)


def installation_from_options(args: Namespace, **other_fields: Any) -> OperatorInstallation:
    from pliant.cli.cluster.operator_manifests import OperatorInstallation

    watched = tuple(dict.fromkeys(args.watched))
    return OperatorInstallation(
        namespace=args.namespace, watched_namespaces=watched, frontends=choose_kinds(args.kinds), **other_fields
    )


def print_manifests(manifests: Iterable[dict[str, Any]]) -> None:
    from pliant.cli.output.manifest_yaml import write_manifests

    write_manifests(manifests, sys.stdout)
