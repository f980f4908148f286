"""`pliant operator`: runs the operator against a Kubernetes cluster."""

from __future__ import annotations

import asyncio
import logging
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from contextlib import AsyncExitStack, suppress
from itertools import product
from typing import TYPE_CHECKING

from pliant.cli.input.kinds_option import choose_kinds, format_kinds_option
from pliant.cli.input.problems import first_pliant_error
from pliant.cli.shutdown import handle_stop_signals, run_with_signals_deferred
from pliant.errors import NotFound, PliantError, UnsupportedEnvironment, UserError
from pliant.runtime.clock import SystemClock, seconds_since_boot
from pliant.runtime.log_setup import configure_logging

if TYPE_CHECKING:
    from pliant.controllers.progress_reports import ProgressReceiver
    from pliant.controllers.telemetry import OperatorTelemetry
    from pliant.frontends.frontend import Frontend
    from pliant.kube.client import KubeClient
    from pliant.kube.election.elector import LeaderElector
    from pliant.kube.transport.base import Transport
    from pliant.kube.transport.http import HttpTransport

DESCRIPTION = "Run the operator against a Kubernetes cluster until it receives SIGTERM."
EPILOG = """\
The cluster is taken from --kubeconfig, $KUBECONFIG, the service account of this pod or ~/.kube/config, in that order.

Of several operators with --leader-elect, the one that holds the Lease reconciles jobs; the others stand by. An operator
that loses the Lease exits with an error, so that Kubernetes restarts it.

examples:
  pliant operator --install-crds                  install the CRDs, then run
  pliant operator --namespace team-a              reconcile only the jobs of one namespace
  pliant operator --namespace team-a --namespace team-b
                                                  two namespaces, with permissions only there
  pliant operator --kinds kubeflow,AITrainingJob  reconcile only jobs of these kinds
  pliant operator --leader-elect --metrics-bind-address :8080
                                                  one of several replicas, with metrics
  pliant operator --master 10.0.0.1:8080 --v 4 --thread-num 1000 --logtostderr --leader-elect=true
                                                  with the option names of other operators
"""

log = logging.getLogger(__name__)


def configure(parser: ArgumentParser) -> None:
    from pliant.cli.input import operator_options as options
    from pliant.cli.input.autoscale_options import add_autoscale_options

    options.add_api_server_options(parser)
    options.add_controller_options(parser)
    options.add_timeout_options(parser)
    options.add_job_master_options(parser)
    options.add_plan_retention_options(parser)
    add_autoscale_options(parser)
    options.add_log_options(parser)
    options.add_monitoring_options(parser)
    options.add_lease_options(parser)


def execute(args: Namespace) -> int:
    from pliant.cli.main import exit_code

    if args.report_bind_address is not None and not args.report_url:
        raise UserError("--report-bind-address requires --report-url, the address at which replicas reach it")
    args.frontends = choose_kinds(args.kinds)
    configure_logging(args.log_format, verbosity=args.verbosity)
    try:
        return run_with_signals_deferred(_run_operator(args))
    except PliantError as error:
        if args.log_format == "text":
            raise
        # A log collector that parses JSON cannot read a plain line.
        log.error("operator failed", extra={"error": str(error)})
        return exit_code(error)


async def _run_operator(args: Namespace) -> int:
    from pliant.cli.cluster.operator_endpoint import choose_transport

    transport = choose_transport(args, SystemClock().now)
    with handle_stop_signals() as stop:
        try:
            await _start_operator(args, transport)
        except asyncio.CancelledError:
            if stop.received_signal is None:
                raise
            log.info("operator stopped", extra={"reason": stop.received_signal.name})
        except BaseExceptionGroup as group:
            raise first_pliant_error(group) from group
        finally:
            await transport.aclose()
    return 0


async def _start_operator(args: Namespace, transport: HttpTransport) -> None:
    """Start the servers of the operator, then reconcile; with leader election, only while holding the lease."""
    from pliant.cli.cluster.apply import install_crds
    from pliant.cli.cluster.progress_receiver import open_operator_receiver, read_operator_secret
    from pliant.cli.input.autoscale_options import autoscale_options
    from pliant.cli.input.operator_options import operator_config
    from pliant.controllers.operator import Operator
    from pliant.controllers.telemetry import OperatorTelemetry
    from pliant.kube.client import KubeClient
    from pliant.kube.transport.metered import MeteredTransport
    from pliant.kube.transport.write_limiter import AdaptiveWriteLimiter
    from pliant.runtime.accept import raise_open_file_limit

    raise_open_file_limit()  # each replica that waits for a change of its job has a connection
    telemetry = OperatorTelemetry()
    metered = MeteredTransport(transport, telemetry.record_api_call, asyncio.get_running_loop().time)
    elector = _make_elector(args, metered, _lease_namespace(args, transport)) if args.leader_elect else None

    receiver: ProgressReceiver | None = None
    secret: bytes | None = None

    async def reconcile_jobs(client: KubeClient) -> None:
        scope, kinds = ",".join(args.namespaces) or "all", format_kinds_option(args.frontends) or "all"
        log.info("operator starting", extra={"namespace": scope, "kinds": kinds})
        telemetry.operator = Operator(
            client.with_write_limiter(AdaptiveWriteLimiter(args.max_writes)),
            SystemClock(),
            namespaces=args.namespaces,
            frontends=args.frontends,
            workers=args.workers,
            config=operator_config(args),
            key_secret=secret,
            progress_receiver=receiver,
            autoscale_options=autoscale_options(args),
        )
        await telemetry.operator.run()

    async with AsyncExitStack() as stack:
        await _serve_metrics(args, telemetry, stack)
        client = KubeClient(metered)
        secret = await read_operator_secret(client, _lease_namespace(args, transport), args.lease_name)
        receiver = await stack.enter_async_context(open_operator_receiver(args, client, secret))
        if args.install_crds:
            await install_crds(client, args.frontends)
        await check_any_kind_served(client, args.namespaces, args.frontends)
        if elector is None:
            await reconcile_jobs(client)
        else:
            telemetry.is_leading = lambda: elector.is_leading
            await elector.run_as_leader(reconcile_jobs)


async def _serve_metrics(args: Namespace, telemetry: OperatorTelemetry, stack: AsyncExitStack) -> None:
    from pliant.runtime.http_server import serve_pages

    for host, port in filter(None, dict.fromkeys((args.metrics_bind_address, args.health_probe_bind_address))):
        try:
            bound_port = await stack.enter_async_context(serve_pages(telemetry.http_pages, host, port))
        except OSError as error:
            reason = error.strerror or error
            raise UnsupportedEnvironment(f"cannot serve metrics on {host or ''}:{port}: {reason}") from None
        log.info("serving metrics", extra={"host": host or "all", "port": bound_port})


def _make_elector(args: Namespace, transport: Transport, lease_namespace: str) -> LeaderElector:
    from pliant.kube.election.elector import LeaderElector
    from pliant.kube.election.lease import LeaseCandidate, LeaseTimings, generate_process_identity

    candidate = LeaseCandidate(namespace=lease_namespace, name=args.lease_name, identity=generate_process_identity())
    timings = LeaseTimings.from_duration(args.lease_duration, args.renew_deadline, args.retry_period)
    return LeaderElector(transport, candidate, timings, now=SystemClock().now, uptime=seconds_since_boot)


def _lease_namespace(args: Namespace, transport: HttpTransport) -> str:
    # With several watched namespaces there is no natural one for the lease.
    only = args.namespaces[0] if len(set(args.namespaces)) == 1 else None
    return args.lease_namespace or only or transport.endpoint.default_namespace or "default"


async def check_any_kind_served(
    client: KubeClient, namespaces: Sequence[str] = (), frontends: Sequence[Frontend] | None = None
) -> None:
    """Raise UnsupportedEnvironment if the cluster serves none of the kinds."""
    from pliant.controllers.job import resource_of

    wanted = choose_kinds(()) if frontends is None else frontends
    for frontend, namespace in product(wanted, namespaces or (None,)):
        with suppress(NotFound):
            await client.get_raw(f"{resource_of(frontend).path(namespace)}?limit=1")
            return
    names = format_kinds_option(wanted)
    raise UnsupportedEnvironment(
        f"the cluster serves no job kind{f' of {names}' if names else ''}; install the CRDs with "
        f"`pliant crds{f' --kinds {names}' if names else ''} | kubectl apply --server-side -f -`, or use --install-crds"
    )
