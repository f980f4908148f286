"""`pliant crds`: the resource definitions to install on a cluster, as YAML."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace

EXAMPLES = """\
examples:
  pliant crds | kubectl apply -f -                install them all
  pliant crds --kind AITrainingJob > crd.yaml     keep one in a file
  pliant crds --kind paddlejobs.kubeflow.org      of several groups that have a kind of that name, one
"""


def configure(parser: ArgumentParser) -> None:
    """Declare the options."""
    parser.epilog = EXAMPLES
    parser.add_argument("--kind", metavar="KIND", help="only the definitions of this kind")


def execute(args: Namespace) -> int:
    """Print the definitions."""
    from pliant.cli.jobs import names_of
    from pliant.cli.problems import refuse
    from pliant.frontends.base import definitions
    from pliant.plugins.known import kinds

    chosen = [end for end in kinds().values() if args.kind is None or args.kind.lower() in names_of(end)]
    if not chosen:
        known = ", ".join(sorted({end.kind for end in kinds().values()}))
        raise refuse(f"Pliant defines no kind `{args.kind}`", fix=f"choose one of: {known}")
    import yaml

    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    found = [each for end in chosen for each in definitions(end)]
    yaml.dump_all(found, sys.stdout, Dumper=dumper, sort_keys=False, explicit_start=True)
    return 0
