"""`pliant uninstall`: prints the manifests of the operator, for deletion."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from pliant.cli.input.install_options import add_namespace_options, installation_from_options, print_manifests
from pliant.cli.input.kinds_option import add_kinds_option

DESCRIPTION = "Print the manifests of `pliant install` for `kubectl delete`. The command itself changes nothing."
EPILOG = """\
Use the same options as for `pliant install`. The manifests are in deletion order: the Deployment first, then the roles
and the ServiceAccount.

Jobs stay on the cluster and their pods continue, but nothing restarts, resizes or finishes them. A finished job keeps
its pods and its last status until an operator runs again.

Two things are not deleted by default:
  the CRDs          deleting them deletes all jobs and their pods: --crds
  the namespace     it may contain other objects: kubectl delete namespace pliant-system

examples:
  pliant uninstall | kubectl delete --ignore-not-found -f -
  pliant uninstall --crds | kubectl delete --ignore-not-found -f -
                                                  delete the operator, then all jobs on the cluster
  pliant uninstall --crds --kinds paddle | kubectl delete --ignore-not-found -f -
                                                  delete the operator, then all jobs of these kinds
"""


def configure(parser: ArgumentParser) -> None:
    add_namespace_options(parser)
    add_kinds_option(parser)
    parser.add_argument("--crds", action="store_true", help="Also print the CRDs; deleting them deletes all jobs")


def execute(args: Namespace) -> int:
    from pliant.cli.cluster.operator_manifests import crd_manifests, operator_deployment_manifests

    installation = installation_from_options(args)
    crds = crd_manifests(installation.frontends) if args.crds else ()
    print_manifests([*reversed([*operator_deployment_manifests(installation)]), *crds])
    return 0
