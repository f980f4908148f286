"""`pliant operator`: work on the jobs of any Kubernetes cluster."""

from __future__ import annotations

import asyncio
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pliant.kube.client import KubeClient

EPILOG = """\
Uses the cluster of --kubeconfig, of $KUBECONFIG, of the pod it runs in, or of ~/.kube/config, in that order.
Nothing is installed unless asked for. Stops in good order on SIGTERM.

examples:
  pliant operator --install-crds                  teach the cluster our kinds, then work
  pliant operator --namespace team-a              only the jobs of one namespace
"""


def configure(parser: ArgumentParser) -> None:
    """Declare the options."""
    from pliant.cli.logformat import FORMATS

    parser.epilog = EPILOG
    parser.add_argument("--kubeconfig", type=Path, metavar="FILE", help="how to reach the cluster")
    parser.add_argument("--context", metavar="NAME", help="which context of the kubeconfig")
    parser.add_argument("--namespace", metavar="NAME", help="only the jobs of this namespace (all)")
    parser.add_argument("--install-crds", action="store_true", help="install or update the resource definitions")
    parser.add_argument("--log-format", choices=FORMATS, default="text", help="text or json (text)")


def execute(args: Namespace) -> int:
    """Work until told to stop."""
    from pliant.cli.logformat import write_log

    write_log(args.log_format)
    return asyncio.run(_operate(args))


async def _operate(args: Namespace) -> int:
    import logging

    from pliant.cli.apply import install_crds
    from pliant.cli.stopping import stopping
    from pliant.kube.client import KubeClient
    from pliant.kube.config import transport_for
    from pliant.runtime.clock import SystemClock

    log = logging.getLogger(__name__)
    transport = transport_for(args.kubeconfig, args.context, SystemClock().now)
    client = KubeClient(transport)
    with stopping() as stop:
        try:
            if args.install_crds:
                await install_crds(client)
            await check_served(client, args.namespace)
            log.info("operator starting", extra={"namespace": args.namespace or "all"})
            await _work(client, args.namespace)
        except asyncio.CancelledError:
            if stop.asked_by is None:
                raise
            log.info("operator stopped", extra={"because": stop.asked_by.name})
        finally:
            await transport.aclose()
    return 0


async def _work(client: KubeClient, namespace: str | None) -> None:
    from pliant.cli.problems import first_error
    from pliant.controllers.operator import Operator
    from pliant.runtime.clock import SystemClock

    try:
        await Operator(client, SystemClock(), namespace=namespace).run()
    except BaseExceptionGroup as group:
        raise first_error(group) from group


async def check_served(client: KubeClient, namespace: str | None) -> None:
    """Say at once what a cluster lacks, instead of waiting for it in silence."""
    from pliant.controllers.job import resource_of
    from pliant.errors import NotFound, NotPossibleHere
    from pliant.frontends import FRONTENDS

    for frontend in FRONTENDS.values():
        try:
            await client.raw(f"{resource_of(frontend).path(namespace)}?limit=1")
        except NotFound:
            raise NotPossibleHere(
                f"the cluster does not know the kind {frontend.kind}; install it with "
                "`pliant crds | kubectl apply --server-side -f -`, or start with --install-crds"
            ) from None
