"""`pliant crds`: the resource definitions to install on a cluster, as YAML."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from pliant.cli.input.kinds_option import add_kinds_option

EPILOG = """\
A kind is chosen by its family (aitrainingjob, elasticjob, paddle, paddle-batch, dl, kubeflow), its API group, its
name, its plural or its short name. Where kinds of several groups share a name, write it with its group.

examples:
  pliant crds | kubectl apply --server-side -f -  install every definition
  pliant crds --kinds paddle,PyTorchJob           a family and a kind
  pliant crds --kinds paddlejobs.kubeflow.org     one of several kinds of the same name
  pliant crds --kinds scaleplans                  ScalePlan without ElasticJob
"""


def configure(parser: ArgumentParser) -> None:
    """Declare the options."""
    parser.epilog = EPILOG
    add_kinds_option(parser)


def execute(args: Namespace) -> int:
    """Print the definitions."""
    from pliant.cli.input.install_options import print_manifests
    from pliant.cli.input.kinds_option import choose_crds

    print_manifests(choose_crds(args.kinds))
    return 0
