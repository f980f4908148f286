"""`pliant uninstall`: what `pliant install` put on a cluster, as YAML, to be deleted."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from pliant.cli.input.install_options import add_namespace_options
from pliant.cli.input.kinds_option import add_kinds_option

EPILOG = """\
Prints what `pliant install` with the same options does, in the order in which it should go: the operator first,
then its rights and its account. Changes nothing by itself.

Running jobs stay. Their pods go on training without an operator, but nothing restarts, resizes or ends them: a job
that is over keeps its pods and its last status until an operator comes back.

Two things stay on the cluster unless you say otherwise:
  the definitions       with them goes every job, and with a job its pods: --crds
  the namespace         other things may live in it: kubectl delete namespace pliant-system

examples:
  pliant uninstall | kubectl delete --ignore-not-found -f -
  pliant uninstall --crds | kubectl delete --ignore-not-found -f -
                                                  the operator, then every job on the cluster
  pliant uninstall --crds --kinds paddle | kubectl delete --ignore-not-found -f -
                                                  the operator, then every job of these kinds
"""


def configure(parser: ArgumentParser) -> None:
    """Declare the options."""
    parser.epilog = EPILOG
    add_namespace_options(parser)
    add_kinds_option(parser)
    parser.add_argument(
        "--crds", action="store_true", help="the definitions too, and so every job of our kinds and its pods"
    )


def execute(args: Namespace) -> int:
    """Print the objects, each before those it needs."""
    from pliant.cli.cluster.operator_manifests import crd_manifests, operator_manifests
    from pliant.cli.input.install_options import installation_from_options, print_manifests

    installed = installation_from_options(args)
    printed = crd_manifests(installed.frontends) if args.crds else ()
    print_manifests([*reversed([*operator_manifests(installed)]), *printed])
    return 0
