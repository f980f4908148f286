"""What the master is told when it starts: by the operator, and by annotations of its job."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from contextlib import suppress
from dataclasses import fields
from math import inf, nan
from pathlib import Path
from typing import Any, NoReturn

from pliant.errors import ApiError, InvalidSpec, NotFound, PliantError, UserError
from pliant.kube.client import KubeClient
from pliant.kube.client_config import create_transport
from pliant.master.brain.timing import BrainTiming
from pliant.master.checkpoint.checkpointer import MasterSuperseded
from pliant.master.checkpoint.configmap_store import ConfigMapCheckpointStore
from pliant.master.control.job_spec import parse_elastic_job
from pliant.master.control.loop import MasterLoop
from pliant.master.control.scale_plans import ELASTIC_JOBS, owner_reference
from pliant.master.model import JobCompletion, MasterJobSpec
from pliant.master.server.service import MasterService, ServiceTiming
from pliant.runtime.clock import SystemClock
from pliant.runtime.log_setup import TextFormatter

DEFAULT_PORT = 50001


class _RaisingParser(ArgumentParser):
    """Speaks of mistakes by raising them."""

    def error(self, message: str) -> NoReturn:
        raise UserError(message)


def parse_arguments(arguments: list[str]) -> tuple[Namespace, list[str]]:
    """The arguments, and the words that mean nothing to this master: others may understand them."""
    parser = _RaisingParser(
        prog="python -m pliant.master",
        description="The master of one ElasticJob.",
        allow_abbrev=False,
        add_help=arguments in (["-h"], ["--help"]),  # among other arguments it must not end the pod of a job
    )
    parser.add_argument("--namespace", default="default", help="where its job is")
    parser.add_argument("--job_name", required=True, help="the name of its job")
    parser.add_argument("--port", type=parse_whole_number, default=DEFAULT_PORT, help="where members reach it")
    for tempo in fields(BrainTiming):
        kind = parse_whole_number if isinstance(tempo.default, int) else parse_non_negative
        parser.add_argument(f"--{tempo.name}", type=kind, metavar="NUMBER", help="see docs/master.md")
    for wait in fields(ServiceTiming):
        name = f"--measure_{wait.name}"
        parser.add_argument(name, type=parse_non_negative, metavar="SECONDS", help="see docs/training-client.md")
    return parser.parse_known_args(arguments)


def parse_non_negative(text: str) -> float:
    """A number, 0 or more."""
    try:
        value = float(text)
    except ValueError:
        value = nan
    if not 0 <= value < inf:
        raise ArgumentTypeError(f"must be a number from 0 on, got {text!r}")
    return value


def parse_whole_number(text: str) -> int:
    """A whole number, 0 or more."""
    if not text.isdecimal():
        raise ArgumentTypeError(f"must be a whole number, got {text!r}")
    return int(text)


def timing_from_arguments(args: Namespace) -> BrainTiming:
    """The times that were asked for."""
    said = {field.name: getattr(args, field.name) for field in fields(BrainTiming)}
    return BrainTiming(**{name: value for name, value in said.items() if value is not None})


def service_timing_from_arguments(args: Namespace) -> ServiceTiming:
    """The service's own times that were asked for."""
    said = {field.name: getattr(args, f"measure_{field.name}") for field in fields(ServiceTiming)}
    return ServiceTiming(**{name: value for name, value in said.items() if value is not None})


EXIT_FAILED = 1
"""What the operator takes for the end of the job: trying again is in vain."""
EXIT_RETRY = 3
EXIT_TERMINATED = 143
INITIAL_BACKOFF_SECONDS, MAX_BACKOFF_SECONDS = 1.0, 15.0
INVALID_SPEC_TIMEOUT_SECONDS = 60.0
"""Seconds in which a job that cannot be read may be mended."""
TERMINATION_LOG_PATH = Path("/dev/termination-log")

log = logging.getLogger("pliant.master")


def main(arguments: list[str] | None = None) -> int:
    """Run to the end of the job; the exit code is its verdict: 0 succeeded, 1 failed, anything else try again."""
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(TextFormatter())
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
    logging.getLogger("aiohttp.access").setLevel(logging.WARNING)
    try:
        args, unknown = parse_arguments(sys.argv[1:] if arguments is None else arguments)
        if unknown:
            log.warning("arguments not understood", extra={"arguments": " ".join(unknown)})
        return asyncio.run(_run_until_terminated(args))
    except UserError as problem:
        return _report_exit(str(problem), EXIT_FAILED)
    except MasterSuperseded as problem:
        return _report_exit(str(problem), EXIT_RETRY)
    except PliantError as problem:
        return _report_exit(str(problem), EXIT_RETRY)
    except Exception as mistake:
        # A mistake of ours is not the job's: Python would end with 1 by itself, and the job had failed.
        log.exception("mistake in the master")
        return _report_exit(f"mistake in the master: {mistake!r}", EXIT_RETRY)


async def _run_until_terminated(args: Namespace) -> int:
    clock = SystemClock()
    transport = create_transport(None, None, clock.now)
    work = asyncio.ensure_future(_run_master(KubeClient(transport), args, clock))
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, work.cancel)
    try:
        end = await work
    except asyncio.CancelledError:
        return _report_exit("told to stop", EXIT_TERMINATED)
    finally:
        await transport.aclose()
    return _report_exit(
        f"the job has {'succeeded' if end.has_succeeded else 'failed'}: {end.reason}",
        0 if end.has_succeeded else EXIT_FAILED,
    )


async def _run_master(client: KubeClient, args: Namespace, clock: SystemClock) -> JobCompletion:
    job = await _wait_for_job(client, args)
    identity = f"{os.environ.get('POD_NAME') or os.uname().nodename} {clock.now().isoformat()}"
    shelf = ConfigMapCheckpointStore(client, job.namespace, owner_reference(job), identity)
    least = max((job.roles[name].min_size for name in ("worker",) if name in job.roles), default=1)
    service = MasterService(
        job.uid, store=shelf, clock=clock, timing=service_timing_from_arguments(args), min_workers=max(least, 1)
    )
    has_memory = await _load_service_state(service)
    log.info("master started", extra={"job": f"{job.namespace}/{job.name}", "takes_over": has_memory})
    helm = MasterLoop(client, job, service, clock, timing_from_arguments(args))
    serving = asyncio.create_task(service.run(None, args.port))
    steering = asyncio.create_task(helm.run())
    try:
        await asyncio.wait((serving, steering), return_when=asyncio.FIRST_COMPLETED)
        if serving.done():
            serving.result()
        return await steering
    finally:
        for task in (steering, serving):
            task.cancel()
        await asyncio.gather(steering, serving, return_exceptions=True)


async def _wait_for_job(client: KubeClient, args: Namespace) -> MasterJobSpec:
    """The job, as soon as the API server tells of it; whoever has none has nothing to do."""
    pause, waited = INITIAL_BACKOFF_SECONDS, 0.0
    while True:
        try:
            raw: dict[str, Any] = await client.get(ELASTIC_JOBS, args.namespace, args.job_name)
            return parse_elastic_job(raw)
        except InvalidSpec as problem:
            # In the middle of an edit, perhaps: what is mended soon must not fail by our end.
            log.warning("job cannot be read", extra={"because": str(problem)})
            waited += pause
            if waited > INVALID_SPEC_TIMEOUT_SECONDS:
                raise
        except NotFound:
            raise UserError(f"there is no ElasticJob {args.job_name} in {args.namespace}") from None
        except ApiError as problem:
            log.warning("job not read yet", extra={"because": str(problem)})
        await asyncio.sleep(pause)
        pause = min(2 * pause, MAX_BACKOFF_SECONDS)


async def _load_service_state(service: MasterService) -> bool:
    pause = INITIAL_BACKOFF_SECONDS
    while True:
        try:
            return await service.load_state()
        except ApiError as problem:
            log.warning("memory not read yet", extra={"because": str(problem)})
        await asyncio.sleep(pause)
        pause = min(2 * pause, MAX_BACKOFF_SECONDS)


def _report_exit(message: str, exit_code: int) -> int:
    """The last words, in the log and where the cluster looks for them."""
    log.log(logging.INFO if exit_code in (0, EXIT_TERMINATED) else logging.ERROR, message)
    if exit_code not in (0, EXIT_TERMINATED) and TERMINATION_LOG_PATH.exists():
        with suppress(OSError):
            TERMINATION_LOG_PATH.write_text(message, encoding="utf-8")
    return exit_code
