"""`pliant crds`: prints the CustomResourceDefinitions."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from pliant.cli.input.install_options import print_manifests
from pliant.cli.input.kinds_option import add_kinds_option, choose_crds

DESCRIPTION = "Print the CustomResourceDefinitions of the job kinds as YAML, for `kubectl apply`."
EPILOG = """\
--kinds accepts a family (aitrainingjob, elasticjob, paddle, paddle-batch, dl, kubeflow), an API group, a kind, its
plural or its short name. A name that several API groups share must be written with its group.

examples:
  pliant crds | kubectl apply --server-side -f -  install all CRDs
  pliant crds --kinds paddle,PyTorchJob           one family and one kind
  pliant crds --kinds paddlejobs.kubeflow.org     one of several kinds with the same name
  pliant crds --kinds scaleplans                  ScalePlan without ElasticJob
"""


def configure(parser: ArgumentParser) -> None:
    add_kinds_option(parser)


def execute(args: Namespace) -> int:
    print_manifests(choose_crds(args.kinds))
    return 0
