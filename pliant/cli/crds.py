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
    from pliant.cli.jobs import names_in, names_of
    from pliant.cli.problems import refuse
    from pliant.frontends.base import definitions
    from pliant.plugins.known import kinds

    word = args.kind.lower() if args.kind is not None else None
    # Whoever has the jobs of a kind has their plans, too; plans can be had alone.
    found = [
        crd
        for end in kinds().values()
        for crd in definitions(end)
        if word is None or word in names_of(end) | names_in(crd)
    ]
    if not found:
        known = ", ".join(
            sorted({crd["spec"]["names"]["kind"] for end in kinds().values() for crd in definitions(end)})
        )
        raise refuse(f"Pliant defines no kind `{args.kind}`", fix=f"choose one of: {known}")
    import yaml

    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    yaml.dump_all(found, sys.stdout, Dumper=dumper, sort_keys=False, explicit_start=True)
    return 0
