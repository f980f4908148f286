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
    from pliant.controllers.progress_reports import ProgressReceiver
    from pliant.controllers.telemetry import OperatorTelemetry
    from pliant.frontends.frontend import Frontend
    from pliant.kube.client import KubeClient
    from pliant.kube.election.elector import LeaderElector
    from pliant.kube.transport.base import Transport
    from pliant.kube.transport.http import HttpTransport

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
    from pliant.cli.input import operator_options as options
    from pliant.cli.input.autoscale_options import add_autoscale_options

    parser.epilog = EPILOG
    options.add_cluster_options(parser)
    options.add_controller_options(parser)
    options.add_timeout_options(parser)
    options.add_master_options(parser)
    options.add_plan_retention_options(parser)
    add_autoscale_options(parser)
    options.add_log_options(parser)
    options.add_metrics_options(parser)
    options.add_report_options(parser)
    options.add_lease_options(parser)


def execute(args: Namespace) -> int:
    """Work until told to stop."""
    from pliant.cli.input.kinds_option import choose_kinds
    from pliant.cli.main import exit_code
    from pliant.cli.shutdown import run_until_stopped
    from pliant.errors import PliantError, UserError
    from pliant.runtime.log_setup import configure_logging

    if args.report_bind_address is not None and not args.report_url:
        raise UserError("--report-bind-address needs --report-url: by what address do members reach it?")
    args.frontends = choose_kinds(args.kinds)
    configure_logging(args.log_format, verbosity=args.verbosity)
    try:
        return run_until_stopped(_run_operator(args))
    except PliantError as error:
        if args.log_format == "text":
            raise
        # Whoever reads records would not know what to make of a bare line.
        log.error("operator failed", extra={"because": str(error)})
        return exit_code(error)


async def _run_operator(args: Namespace) -> int:
    from pliant.cli.cluster.operator_endpoint import choose_transport
    from pliant.cli.input.problems import first_pliant_error
    from pliant.cli.shutdown import handle_stop_signals
    from pliant.runtime.clock import SystemClock

    transport = choose_transport(args, SystemClock().now)
    with handle_stop_signals() as stop:
        try:
            await _start_operator(args, transport)
        except asyncio.CancelledError:
            if stop.received_signal is None:
                raise
            log.info("operator stopped", extra={"because": stop.received_signal.name})
        except BaseExceptionGroup as group:
            raise first_pliant_error(group) from group
        finally:
            await transport.aclose()
    return 0


async def _start_operator(args: Namespace, transport: HttpTransport) -> None:
    """Prepare everything, then work: at once, or as soon as the lease is ours."""
    from pliant.cli.cluster.apply import install_crds
    from pliant.cli.cluster.progress_receiver import open_operator_receiver
    from pliant.cli.input.autoscale_options import autoscale_options
    from pliant.cli.input.operator_options import operator_config
    from pliant.controllers.operator import Operator
    from pliant.controllers.telemetry import OperatorTelemetry
    from pliant.kube.client import KubeClient
    from pliant.kube.transport.metered import MeteredTransport
    from pliant.kube.transport.write_limiter import AdaptiveWriteLimiter
    from pliant.runtime.clock import SystemClock

    telemetry = OperatorTelemetry()
    metered = MeteredTransport(transport, telemetry.record_api_call, asyncio.get_running_loop().time)
    elector = _make_elector(args, metered, _lease_namespace(args, transport)) if args.leader_elect else None

    desk: ProgressReceiver | None = None

    async def work(client: KubeClient) -> None:
        log.info("operator starting", extra=_log_scope(args))
        telemetry.operator = Operator(
            client.with_write_limiter(AdaptiveWriteLimiter(args.max_writes)),
            SystemClock(),
            namespaces=args.namespaces,
            frontends=args.frontends,
            workers=args.workers,
            config=operator_config(args),
            progress_receiver=desk,
            autoscale_options=autoscale_options(args),
        )
        await telemetry.operator.run()

    async with AsyncExitStack() as stack:
        await _serve_metrics(args, telemetry, stack)
        client = KubeClient(metered)
        desk = await stack.enter_async_context(open_operator_receiver(args, client, _lease_namespace(args, transport)))
        if args.install_crds:
            await install_crds(client, args.frontends)
        await check_kinds_served(client, args.namespaces, args.frontends)
        if elector is None:
            await work(client)
        else:
            telemetry.is_leading = lambda: elector.is_leading
            await elector.run_as_leader(work)


async def _serve_metrics(args: Namespace, telemetry: OperatorTelemetry, stack: AsyncExitStack) -> None:
    from pliant.errors import UnsupportedEnvironment
    from pliant.runtime.http_server import serve_pages

    for host, wanted in filter(None, dict.fromkeys((args.metrics_bind_address, args.health_probe_bind_address))):
        try:
            taken = await stack.enter_async_context(serve_pages(telemetry.http_pages, host, wanted))
        except OSError as problem:
            where = f"{host or ''}:{wanted}"
            raise UnsupportedEnvironment(
                f"metrics cannot be served on {where}: {problem.strerror or problem}"
            ) from None
        log.info("serving metrics", extra={"host": host or "every address", "port": taken})


def _make_elector(args: Namespace, transport: Transport, lease_namespace: str) -> LeaderElector:
    from pliant.kube.election.elector import LeaderElector
    from pliant.kube.election.lease import LeaseCandidate, LeaseTimings, process_identity
    from pliant.runtime.clock import SystemClock, uptime_seconds

    candidacy = LeaseCandidate(namespace=lease_namespace, name=args.lease_name, identity=process_identity())
    terms = LeaseTimings.from_duration(args.lease_duration, args.renew_deadline, args.retry_period)
    return LeaderElector(transport, candidacy, terms, now=SystemClock().now, uptime=uptime_seconds)


def _lease_namespace(args: Namespace, transport: HttpTransport) -> str:
    """Where operators of the same jobs meet."""
    # Of several namespaces none is the one where all who work in them would meet.
    only = args.namespaces[0] if len(set(args.namespaces)) == 1 else None
    return args.lease_namespace or only or transport.endpoint.default_namespace or "default"


def _log_scope(args: Namespace) -> dict[str, str]:
    """What the operator works on, for its log."""
    from pliant.cli.input.kinds_option import format_kinds_option

    return {"namespace": ",".join(args.namespaces) or "all", "kinds": format_kinds_option(args.frontends) or "all"}


async def check_kinds_served(
    client: KubeClient, namespaces: Sequence[str] = (), frontends: Sequence[Frontend] | None = None
) -> None:
    """Raise NotPossibleHere if the cluster serves none of the kinds; the operator waits for single ones."""
    from pliant.cli.input.kinds_option import choose_kinds, format_kinds_option
    from pliant.controllers.job import resource_of
    from pliant.errors import NotFound, UnsupportedEnvironment

    chosen = choose_kinds(()) if frontends is None else frontends
    known = 0
    for frontend, namespace in product(chosen, namespaces or (None,)):
        with suppress(NotFound):
            await client.get_raw(f"{resource_of(frontend).path(namespace)}?limit=1")
            known += 1
    if not known:
        words = format_kinds_option(chosen)
        raise UnsupportedEnvironment(
            f"the cluster knows no kind of training job{f' of {words}' if words else ''}; install them with "
            f"`pliant crds{f' --kinds {words}' if words else ''} | kubectl apply --server-side -f -`, "
            "or start with --install-crds"
        )
