"""`pliant operator`: work on the jobs of any Kubernetes cluster."""

from __future__ import annotations

import asyncio
import logging
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from contextlib import AsyncExitStack, suppress
from itertools import product
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pliant.controllers.reports import ReportDesk
    from pliant.controllers.telemetry import Telemetry
    from pliant.frontends.base import Frontend
    from pliant.kube.client import KubeClient
    from pliant.kube.election import Elector
    from pliant.kube.http import HttpTransport
    from pliant.kube.transport import Transport

EPILOG = """\
Uses the cluster of --kubeconfig, of $KUBECONFIG, of the pod it runs in, or of ~/.kube/config, in that order.
Nothing is installed unless asked for. Stops in good order on SIGTERM.

Several operators with --leader-elect agree on one that works, by a Lease; the others stand by. One that loses the
lease ends with an error, for whoever started it to start it again.

examples:
  pliant operator --install-crds                  teach the cluster our kinds, then work
  pliant operator --namespace team-a              only the jobs of one namespace
  pliant operator --namespace team-a --namespace team-b
                                                  of two, with rights in these alone
  pliant operator --kinds kubeflow,AITrainingJob  only jobs of these kinds
  pliant operator --leader-elect --metrics-bind-address :8080
                                                  as in a cluster: one of several, watched by Prometheus
  pliant operator --master 10.0.0.1:8080 --v 4 --thread-num 1000 --logtostderr --leader-elect=true
                                                  as other operators are started
"""

log = logging.getLogger(__name__)


def configure(parser: ArgumentParser) -> None:
    """Declare the options."""
    from pliant.cli import operator_options as options
    from pliant.cli.autoscale_options import add_autoscale_options

    parser.epilog = EPILOG
    options.add_cluster_options(parser)
    options.add_work_options(parser)
    options.add_patience_options(parser)
    options.add_master_options(parser)
    options.add_plan_options(parser)
    add_autoscale_options(parser)
    options.add_log_options(parser)
    options.add_page_options(parser)
    options.add_report_options(parser)
    options.add_lease_options(parser)


def execute(args: Namespace) -> int:
    """Work until told to stop."""
    from pliant.cli.kinds import choose_kinds
    from pliant.cli.main import exit_code
    from pliant.cli.stopping import run_till_stopped
    from pliant.errors import PliantError, UserError
    from pliant.runtime.logformat import write_log

    if args.report_bind_address is not None and not args.report_url:
        raise UserError("--report-bind-address needs --report-url: by what address do members reach it?")
    args.frontends = choose_kinds(args.kinds)
    write_log(args.log_format, verbosity=args.verbosity)
    try:
        return run_till_stopped(_operate(args))
    except PliantError as error:
        if args.log_format == "text":
            raise
        # Whoever reads records would not know what to make of a bare line.
        log.error("operator failed", extra={"because": str(error)})
        return exit_code(error)


async def _operate(args: Namespace) -> int:
    from pliant.cli.cluster_choice import chosen_transport
    from pliant.cli.problems import first_error
    from pliant.cli.stopping import stopping
    from pliant.runtime.clock import SystemClock

    transport = chosen_transport(args, SystemClock().now)
    with stopping() as stop:
        try:
            await _serve(args, transport)
        except asyncio.CancelledError:
            if stop.asked_by is None:
                raise
            log.info("operator stopped", extra={"because": stop.asked_by.name})
        except BaseExceptionGroup as group:
            raise first_error(group) from group
        finally:
            await transport.aclose()
    return 0


async def _serve(args: Namespace, transport: HttpTransport) -> None:
    """Prepare everything, then work: at once, or as soon as the lease is ours."""
    from pliant.cli.apply import install_crds
    from pliant.cli.autoscale_options import autoscale_of
    from pliant.cli.operator_options import rules_of
    from pliant.cli.reporting import desk_of_operator
    from pliant.controllers.operator import Operator
    from pliant.controllers.telemetry import Telemetry
    from pliant.kube.client import KubeClient
    from pliant.kube.metering import MeteredTransport
    from pliant.kube.pacing import Pace
    from pliant.runtime.clock import SystemClock

    telemetry = Telemetry()
    metered = MeteredTransport(transport, telemetry.note_call, asyncio.get_running_loop().time)
    elector = _elector(args, metered, _home(args, transport)) if args.leader_elect else None

    desk: ReportDesk | None = None

    async def work(client: KubeClient) -> None:
        log.info("operator starting", extra=_scope(args))
        telemetry.operator = Operator(
            client.paced(Pace(args.max_writes)),
            SystemClock(),
            namespaces=args.namespaces,
            frontends=args.frontends,
            workers=args.workers,
            rules=rules_of(args),
            reports=desk,
            autoscale=autoscale_of(args),
        )
        await telemetry.operator.run()

    async with AsyncExitStack() as stack:
        await _serve_pages(args, telemetry, stack)
        client = KubeClient(metered)
        desk = await stack.enter_async_context(desk_of_operator(args, client, _home(args, transport)))
        if args.install_crds:
            await install_crds(client, args.frontends)
        await check_served(client, args.namespaces, args.frontends)
        if elector is None:
            await work(client)
        else:
            telemetry.is_leading = lambda: elector.is_leading
            await elector.lead(work)


async def _serve_pages(args: Namespace, telemetry: Telemetry, stack: AsyncExitStack) -> None:
    from pliant.errors import NotPossibleHere
    from pliant.runtime.health import serving

    for host, wanted in filter(None, dict.fromkeys((args.metrics_bind_address, args.health_probe_bind_address))):
        try:
            taken = await stack.enter_async_context(serving(telemetry.pages, host, wanted))
        except OSError as problem:
            where = f"{host or ''}:{wanted}"
            raise NotPossibleHere(f"metrics cannot be served on {where}: {problem.strerror or problem}") from None
        log.info("serving metrics", extra={"host": host or "every address", "port": taken})


def _elector(args: Namespace, transport: Transport, home: str) -> Elector:
    from pliant.kube.election import Elector
    from pliant.kube.lease import Candidacy, LeaseTerms, process_identity
    from pliant.runtime.clock import SystemClock, uptime

    candidacy = Candidacy(namespace=home, name=args.lease_name, identity=process_identity())
    terms = LeaseTerms.lasting(args.lease_duration, args.renew_deadline, args.retry_period)
    return Elector(transport, candidacy, terms, now=SystemClock().now, uptime=uptime)


def _home(args: Namespace, transport: HttpTransport) -> str:
    """Where operators of the same jobs meet."""
    # Of several namespaces none is the one where all who work in them would meet.
    only = args.namespaces[0] if len(set(args.namespaces)) == 1 else None
    return args.lease_namespace or only or transport.endpoint.namespace or "default"


def _scope(args: Namespace) -> dict[str, str]:
    """What the operator works on, for its log."""
    from pliant.cli.kinds import kinds_argument

    return {
        "namespace": ",".join(args.namespaces) or "all",
        "kinds": kinds_argument(args.frontends) or "all",
    }


async def check_served(
    client: KubeClient, namespaces: Sequence[str] = (), frontends: Sequence[Frontend] | None = None
) -> None:
    """Raise NotPossibleHere if the cluster serves none of the kinds; the operator waits for single ones."""
    from pliant.cli.kinds import choose_kinds, kinds_argument
    from pliant.controllers.job import resource_of
    from pliant.errors import NotFound, NotPossibleHere

    chosen = choose_kinds(()) if frontends is None else frontends
    known = 0
    for frontend, namespace in product(chosen, namespaces or (None,)):
        with suppress(NotFound):
            await client.raw(f"{resource_of(frontend).path(namespace)}?limit=1")
            known += 1
    if not known:
        words = kinds_argument(chosen)
        raise NotPossibleHere(
            f"the cluster knows no kind of training job{f' of {words}' if words else ''}; install them with "
            f"`pliant crds{f' --kinds {words}' if words else ''} | kubectl apply --server-side -f -`, "
            "or start with --install-crds"
        )
