"""`pliant install`: all that an operator needs on a cluster, as YAML."""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError, Namespace

from pliant.cli.input.install_options import add_namespace_options
from pliant.cli.input.kinds_option import add_kinds_option
from pliant.cli.input.local_cluster_options import parse_positive_int

EPILOG = """\
Prints the definitions of our kinds, a namespace, an account, its rights (no more than the operator uses) and a
Deployment. Changes nothing by itself: look at it, then hand it to kubectl. Applied again, it updates.

The namespace is made for the operator alone, and admits only pods of the Pod Security level `restricted`. One that
is watched as well is taken to be there, and stays as it is.

With --kinds the definitions, the rights and what the operator watches are those of these kinds alone.

Running jobs notice nothing of an update: their pods go on, and the new operator takes over where the old one was.

examples:
  pliant install --image registry.example/pliant:0.1.0 | kubectl apply -f -
  pliant install --watch-namespace team-a --watch-namespace team-b | kubectl apply -f -
                                                  jobs of two namespaces, and rights in these alone
  pliant install --kinds paddle,PyTorchJob | kubectl apply --server-side -f -
                                                  two of many kinds: fewer definitions, fewer rights
  pliant install | kubectl diff -f -              what would change
"""


def configure(parser: ArgumentParser) -> None:
    """Declare the options."""
    from pliant import __version__

    parser.epilog = EPILOG
    add_namespace_options(parser)
    add_kinds_option(parser)
    image = f"pliant:{__version__}"
    parser.add_argument(
        "--image", type=_parse_image, default=image, help=f"built from the Dockerfile, where nodes find it ({image})"
    )
    parser.add_argument(
        "--replicas",
        type=parse_positive_int,
        default=2,
        metavar="N",
        help="operators, of which one works at a time (2)",
    )


def execute(args: Namespace) -> int:
    """Print the objects, each after those it needs."""
    from pliant.cli.cluster.operator_manifests import crd_manifests, namespace_manifests, operator_manifests
    from pliant.cli.input.install_options import installation_from_options, print_manifests

    chosen = installation_from_options(args, image=args.image, replicas=args.replicas)
    print_manifests([*crd_manifests(chosen.frontends), *namespace_manifests(chosen), *operator_manifests(chosen)])
    return 0


def _parse_image(text: str) -> str:
    if not text or any(character.isspace() for character in text):
        raise ArgumentTypeError(f"`{text}` is no image; write registry/name:tag")
    return text
