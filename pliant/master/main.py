"""The program of the master pod. The operator passes its options, also from annotations of the job."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import fields
from functools import partial
from math import inf, nan
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from pliant.errors import ApiError, Forbidden, InvalidSpec, NotFound, PliantError, UserError
from pliant.kube.client import KubeClient
from pliant.kube.client_config import create_transport
from pliant.master.brain.timing import BrainTiming
from pliant.master.checkpoint import ConfigMapMasterStateStore
from pliant.master.control.loop import MasterLoop
from pliant.master.control.parsing import parse_elastic_job
from pliant.master.control.scale_plans import ELASTIC_JOBS, elastic_job_owner_reference
from pliant.master.model import JobCompletion, MasterJobSpec
from pliant.master.server.authentication import ApiKeys, read_api_keys
from pliant.master.server.service import MasterService, ServiceTiming
from pliant.runtime.accept import raise_open_file_limit
from pliant.runtime.clock import SystemClock
from pliant.runtime.log_setup import TextFormatter

DEFAULT_PORT = 50001
JOB_FAILED_EXIT_CODE = 1  # the operator fails the job; any other code except 0 restarts the master
RESTART_MASTER_EXIT_CODE = 3
TERMINATED_EXIT_CODE = 143
INITIAL_BACKOFF_SECONDS, MAX_BACKOFF_SECONDS = 1.0, 15.0
INVALID_SPEC_TIMEOUT_SECONDS = 60.0  # how long an invalid ElasticJob may stay invalid before the master fails
FORBIDDEN_TIMEOUT_SECONDS = 60.0  # how long a permission may be missing: a new role takes effect after a while
TERMINATION_LOG_PATH = Path("/dev/termination-log")

T = TypeVar("T")

log = logging.getLogger("pliant.master")


class _RaisingParser(ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UserError(message)


def parse_arguments(arguments: list[str]) -> tuple[Namespace, list[str]]:
    """Parse the arguments; return also the unknown ones, which masters of other versions may support."""
    parser = _RaisingParser(
        prog="python -m pliant.master",
        description="Run the master of one ElasticJob.",
        allow_abbrev=False,
        add_help=arguments in (["-h"], ["--help"]),  # a --help among other arguments must not end the master
    )
    parser.add_argument("--namespace", default="default", help="namespace of the ElasticJob")
    parser.add_argument("--job_name", required=True, help="name of the ElasticJob")
    parser.add_argument("--port", type=parse_whole_number, default=DEFAULT_PORT, help="port of the HTTP API")
    for field in fields(BrainTiming):
        parse = parse_whole_number if isinstance(field.default, int) else parse_non_negative
        parser.add_argument(f"--{field.name}", type=parse, metavar="NUMBER", help="see docs/master.md")
    for field in fields(ServiceTiming):
        name = f"--service_{field.name}"
        parser.add_argument(name, type=parse_non_negative, metavar="SECONDS", help="see docs/elastic.md")
    return parser.parse_known_args(arguments)


def parse_non_negative(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = nan
    if not 0 <= value < inf:
        raise ArgumentTypeError(f"must be a number of at least 0, got {text!r}")
    return value


def parse_whole_number(text: str) -> int:
    if not text.isdecimal():
        raise ArgumentTypeError(f"must be a whole number, got {text!r}")
    return int(text)


def brain_timing_from_arguments(args: Namespace) -> BrainTiming:
    values = {field.name: getattr(args, field.name) for field in fields(BrainTiming)}
    return BrainTiming(**{name: value for name, value in values.items() if value is not None})


def service_timing_from_arguments(args: Namespace) -> ServiceTiming:
    values = {field.name: getattr(args, f"service_{field.name}") for field in fields(ServiceTiming)}
    return ServiceTiming(**{name: value for name, value in values.items() if value is not None})


def main(arguments: list[str] | None = None) -> int:
    """Run until the job ends; exit with 0 if it succeeded, 1 if it failed, another code to be restarted."""
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(TextFormatter())
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
    logging.getLogger("aiohttp.access").setLevel(logging.WARNING)
    raise_open_file_limit()
    try:
        args, unknown = parse_arguments(sys.argv[1:] if arguments is None else arguments)
        if unknown:
            log.warning("unknown arguments ignored", extra={"arguments": " ".join(unknown)})
        return asyncio.run(_run_until_terminated(args))
    except UserError as error:
        return _report_exit(str(error), JOB_FAILED_EXIT_CODE)
    except PliantError as error:
        return _report_exit(str(error), RESTART_MASTER_EXIT_CODE)
    except Exception as error:
        # Python would exit with 1, which fails the job.
        log.exception("internal error in the master")
        return _report_exit(f"internal error in the master: {error!r}", RESTART_MASTER_EXIT_CODE)


async def _run_until_terminated(args: Namespace) -> int:
    clock, keys = SystemClock(), read_api_keys(os.environ)
    transport = create_transport(None, None, clock.now)
    task = asyncio.ensure_future(_run_master(KubeClient(transport), args, clock, keys))
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    try:
        completion = await task
    except asyncio.CancelledError:
        return _report_exit("terminated", TERMINATED_EXIT_CODE)
    finally:
        await transport.aclose()
    if completion.has_succeeded:
        return _report_exit(f"the job has succeeded: {completion.reason}", 0)
    return _report_exit(f"the job has failed: {completion.reason}", JOB_FAILED_EXIT_CODE)


async def _run_master(client: KubeClient, args: Namespace, clock: SystemClock, keys: ApiKeys) -> JobCompletion:
    job = await _wait_for_job(client, args)
    identity = f"{os.environ.get('POD_NAME') or os.uname().nodename} {clock.now().isoformat()}"
    store = ConfigMapMasterStateStore(client, job.namespace, elastic_job_owner_reference(job), identity)
    min_workers = max(job.roles["worker"].min_size, 1) if "worker" in job.roles else 1
    timing = service_timing_from_arguments(args)
    service = MasterService(job.uid, store=store, clock=clock, timing=timing, min_workers=min_workers)
    has_state = await _retry_until_answered("read the saved state", service.load_saved_state)
    log.info("master started", extra={"job": f"{job.namespace}/{job.name}", "has_state": has_state})
    loop = MasterLoop(client, job, service, clock, brain_timing_from_arguments(args))
    serving = asyncio.create_task(service.serve_until_cancelled(keys, None, args.port))
    controlling = asyncio.create_task(loop.run_until_job_ends())
    try:
        await asyncio.wait((serving, controlling), return_when=asyncio.FIRST_COMPLETED)
        if serving.done():
            serving.result()
        return await controlling
    finally:
        for task in (controlling, serving):
            task.cancel()
        await asyncio.gather(controlling, serving, return_exceptions=True)


async def _wait_for_job(client: KubeClient, args: Namespace) -> MasterJobSpec:
    """Read the job, with retries while the API server is unreachable or the job is invalid."""
    read_job = partial(client.get, ELASTIC_JOBS, args.namespace, args.job_name)
    delay, waited = INITIAL_BACKOFF_SECONDS, 0.0
    while True:
        try:
            raw: dict[str, Any] = await _retry_until_answered("read the ElasticJob", read_job)
            return parse_elastic_job(raw)
        except InvalidSpec as error:
            # The user may be editing the job: a spec that is corrected soon must not fail it.
            log.warning("invalid ElasticJob", extra={"error": str(error)})
            waited += delay
            if waited > INVALID_SPEC_TIMEOUT_SECONDS:
                raise
        except NotFound:
            raise UserError(f'ElasticJob "{args.job_name}" not found in namespace {args.namespace}') from None
        await asyncio.sleep(delay)
        delay = min(2 * delay, MAX_BACKOFF_SECONDS)


async def _retry_until_answered(action: str, call: Callable[[], Awaitable[T]]) -> T:
    """Call the API server until it answers; raise PliantError if a permission stays missing."""
    delay, forbidden_for = INITIAL_BACKOFF_SECONDS, 0.0
    while True:
        try:
            return await call()
        except NotFound:
            raise
        except ApiError as error:
            log.warning(f"cannot {action}", extra={"error": str(error)})
            forbidden_for = forbidden_for + delay if isinstance(error, Forbidden) else 0.0
            if forbidden_for > FORBIDDEN_TIMEOUT_SECONDS:
                fix = "grant it (docs/elasticjob.md, Permissions), or name no account in the template of the master"
                raise PliantError(f"the service account of the master lacks a permission: {error}; {fix}") from None
        await asyncio.sleep(delay)
        delay = min(2 * delay, MAX_BACKOFF_SECONDS)


def _report_exit(message: str, exit_code: int) -> int:
    """Log the last message, and write it to the termination log after an error."""
    is_error = exit_code not in (0, TERMINATED_EXIT_CODE)
    log.log(logging.ERROR if is_error else logging.INFO, message)
    if is_error and TERMINATION_LOG_PATH.exists():
        with suppress(OSError):
            TERMINATION_LOG_PATH.write_text(message, encoding="utf-8")
    return exit_code
