"""The program in the master pod: serves the members of its job, and steers it to its end."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from argparse import Namespace
from contextlib import suppress
from pathlib import Path
from typing import Any

from pliant.errors import ApiError, InvalidSpec, NotFound, PliantError, UserError
from pliant.kube.client import KubeClient
from pliant.kube.config import transport_for
from pliant.master.arguments import parsed, tempo_of, waits_of
from pliant.master.facts import job_facts
from pliant.master.memory import Superseded
from pliant.master.model import End, JobFacts
from pliant.master.planning import ELASTIC_JOBS, owner_of
from pliant.master.service import Service
from pliant.master.shelf import ConfigMapShelf
from pliant.master.steering import Helm
from pliant.runtime.clock import SystemClock
from pliant.runtime.logformat import TextFormatter

FAILED = 1
"""What the operator takes for the end of the job: trying again is in vain."""
TRY_AGAIN = 3
STOPPED = 143
PAUSE, LONGEST_PAUSE = 1.0, 15.0
PATIENCE = 60.0
"""Seconds in which a job that cannot be read may be mended."""
LAST_WORDS = Path("/dev/termination-log")

log = logging.getLogger("pliant.master")


def main(words: list[str] | None = None) -> int:
    """Run to the end of the job; the exit code is its verdict: 0 succeeded, 1 failed, anything else try again."""
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(TextFormatter())
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
    logging.getLogger("aiohttp.access").setLevel(logging.WARNING)
    try:
        args, unknown = parsed(sys.argv[1:] if words is None else words)
        if unknown:
            log.warning("arguments not understood", extra={"arguments": " ".join(unknown)})
        return asyncio.run(_run(args))
    except UserError as problem:
        return _said(str(problem), FAILED)
    except Superseded as problem:
        return _said(str(problem), TRY_AGAIN)
    except PliantError as problem:
        return _said(str(problem), TRY_AGAIN)
    except Exception as mistake:
        # A mistake of ours is not the job's: Python would end with 1 by itself, and the job had failed.
        log.exception("mistake in the master")
        return _said(f"mistake in the master: {mistake!r}", TRY_AGAIN)


async def _run(args: Namespace) -> int:
    clock = SystemClock()
    transport = transport_for(None, None, clock.now)
    work = asyncio.ensure_future(_steered(KubeClient(transport), args, clock))
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, work.cancel)
    try:
        end = await work
    except asyncio.CancelledError:
        return _said("told to stop", STOPPED)
    finally:
        await transport.aclose()
    return _said(
        f"the job has {'succeeded' if end.has_succeeded else 'failed'}: {end.reason}",
        0 if end.has_succeeded else FAILED,
    )


async def _steered(client: KubeClient, args: Namespace, clock: SystemClock) -> End:
    job = await _found_job(client, args)
    identity = f"{os.environ.get('POD_NAME') or os.uname().nodename} {clock.now().isoformat()}"
    shelf = ConfigMapShelf(client, job.namespace, owner_of(job), identity)
    least = max((job.roles[name].least for name in ("worker",) if name in job.roles), default=1)
    service = Service(job.uid, shelf=shelf, clock=clock, waits=waits_of(args), least=max(least, 1))
    has_memory = await _loaded(service)
    log.info("master started", extra={"job": f"{job.namespace}/{job.name}", "takes_over": has_memory})
    helm = Helm(client, job, service, clock, tempo_of(args))
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


async def _found_job(client: KubeClient, args: Namespace) -> JobFacts:
    """The job, as soon as the API server tells of it; whoever has none has nothing to do."""
    pause, waited = PAUSE, 0.0
    while True:
        try:
            raw: dict[str, Any] = await client.get(ELASTIC_JOBS, args.namespace, args.job_name)
            return job_facts(raw)
        except InvalidSpec as problem:
            # In the middle of an edit, perhaps: what is mended soon must not fail by our end.
            log.warning("job cannot be read", extra={"because": str(problem)})
            waited += pause
            if waited > PATIENCE:
                raise
        except NotFound:
            raise UserError(f"there is no ElasticJob {args.job_name} in {args.namespace}") from None
        except ApiError as problem:
            log.warning("job not read yet", extra={"because": str(problem)})
        await asyncio.sleep(pause)
        pause = min(2 * pause, LONGEST_PAUSE)


async def _loaded(service: Service) -> bool:
    pause = PAUSE
    while True:
        try:
            return await service.load()
        except ApiError as problem:
            log.warning("memory not read yet", extra={"because": str(problem)})
        await asyncio.sleep(pause)
        pause = min(2 * pause, LONGEST_PAUSE)


def _said(words: str, code: int) -> int:
    """The last words, in the log and where the cluster looks for them."""
    log.log(logging.INFO if code in (0, STOPPED) else logging.ERROR, words)
    if code not in (0, STOPPED) and LAST_WORDS.exists():
        with suppress(OSError):
            LAST_WORDS.write_text(words, encoding="utf-8")
    return code
