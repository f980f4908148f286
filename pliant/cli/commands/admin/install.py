"""`pliant install`: prints the manifests that install the operator."""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError, Namespace

from pliant.cli.input.install_options import add_namespace_options, installation_from_options, print_manifests
from pliant.cli.input.kinds_option import add_kinds_option
from pliant.cli.input.local_cluster_options import parse_positive_int

DESCRIPTION = "Print the manifests that install the operator, for `kubectl apply`. The command itself changes nothing."
EPILOG = """\
The manifests are the CRDs, a Namespace, a ServiceAccount, roles with exactly the permissions that the operator uses,
and a Deployment. Applying them again updates the installation. Running jobs continue during an update.

The Namespace enforces the Pod Security level `restricted`. It is not printed if it is also a watched namespace.

With --kinds, the CRDs, the permissions and the watches are limited to these kinds.

examples:
  pliant install --image registry.example/pliant:0.1.0 | kubectl apply -f -
  pliant install --watch-namespace team-a --watch-namespace team-b | kubectl apply -f -
                                                  watch two namespaces, with permissions only there
  pliant install --kinds paddle,PyTorchJob | kubectl apply --server-side -f -
                                                  fewer kinds: fewer CRDs and permissions
  pliant install | kubectl diff -f -              show what would change
"""


def configure(parser: ArgumentParser) -> None:
    from pliant import __version__

    add_namespace_options(parser)
    add_kinds_option(parser)
    image = f"pliant:{__version__}"
    parser.add_argument("--image", type=_parse_image, default=image, help=f"Image of the operator ({image})")
    replicas_help = "Number of operator pods, one of which is the leader (2)"
    parser.add_argument("--replicas", type=parse_positive_int, default=2, metavar="N", help=replicas_help)


def execute(args: Namespace) -> int:
    from pliant.cli.cluster.operator_manifests import (
        crd_manifests,
        operator_deployment_manifests,
        operator_namespace_manifests,
    )

    chosen = installation_from_options(args, image=args.image, replicas=args.replicas)
    print_manifests(
        [
            *crd_manifests(chosen.frontends),
            *operator_namespace_manifests(chosen),
            *operator_deployment_manifests(chosen),
        ]
    )
    return 0


def _parse_image(text: str) -> str:
    if not text or any(character.isspace() for character in text):
        raise ArgumentTypeError(f"`{text}` is not an image; write registry/name:tag")
    return text
