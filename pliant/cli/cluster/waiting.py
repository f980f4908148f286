"""Waits until a job is as wanted, and no longer than a person wants to."""

from __future__ import annotations

import asyncio
from argparse import ArgumentParser
from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from pliant.cli.input.local_cluster_options import parse_duration_option
from pliant.errors import PliantError

if TYPE_CHECKING:
    from pliant.cli.cluster.job_lookup import JobObject
    from pliant.cli.cluster.target import ClusterTarget
    from pliant.kube.cache.informer import Informer

DEFAULT_WAIT_TIMEOUT = timedelta(minutes=5)
NO_TIMEOUT = timedelta(days=365)
"""Longer than anybody waits."""


class WaitTimeout(PliantError):
    """What was waited for has not come; it may come yet."""


def add_wait_options(parser: ArgumentParser, goal: str, timeout: timedelta = DEFAULT_WAIT_TIMEOUT) -> None:
    """Let people wait for the effect."""
    usual = "5m" if timeout is DEFAULT_WAIT_TIMEOUT else "no limit"
    parser.add_argument("--wait", action="store_true", help=f"wait until {goal}")
    parser.add_argument(
        "--timeout", type=parse_duration_option, default=timeout, metavar="TIME", help=f"at most so long ({usual})"
    )


async def wait_for_job(
    target: ClusterTarget,
    job_object: JobObject,
    is_done: Callable[[JobObject | None], bool],
    timeout: timedelta,
    goal: str,
) -> JobObject | None:
    """The job once it is so; None when it is gone. Raises `WaitTimeout` when it takes too long."""
    from pliant.cli.cluster.job_lookup import parse_job_object
    from pliant.cli.cluster.reachability import monitor_reachability
    from pliant.cli.durations import format_duration

    latest: JobObject | None = job_object
    changed = asyncio.Event()

    def note(old: dict[str, Any] | None, new: dict[str, Any] | None) -> None:
        nonlocal latest
        is_same = new is not None and new["metadata"].get("uid") == job_object.uid
        latest = parse_job_object(job_object.frontend, new) if new is not None and is_same else None
        changed.set()

    informer = _job_informer(target, job_object, note)
    async with asyncio.TaskGroup() as tasks:
        following = [tasks.create_task(work) for work in (informer.run(), monitor_reachability(target.client))]
        try:
            async with asyncio.timeout(timeout.total_seconds()):
                await informer.wait_synced()
                if not len(informer.store):
                    latest = None
                while not is_done(latest):
                    changed.clear()
                    await changed.wait()
        except TimeoutError:
            stands = f"; it stands at {latest.phase}: {latest.message}" if latest else ""
            raise WaitTimeout(
                f"{job_object.key.name}: not {goal} after {format_duration(timeout)} (--timeout){stands}"
            ) from None
        finally:
            for task in following:
                task.cancel()
    return latest


def _job_informer(
    target: ClusterTarget, job_object: JobObject, on_change: Callable[..., None]
) -> Informer[dict[str, Any]]:
    from pliant.kube.cache.informer import Informer

    chosen = f"metadata.name={job_object.key.name}"
    return Informer(
        target.client, job_object.resource, dict, namespace=job_object.key.namespace, fields=chosen, on_change=on_change
    )


async def wait_for_pods_deleted(target: ClusterTarget, job_object: JobObject, timeout: timedelta) -> None:
    """Return once no pod of a job is left; raises `WaitTimeout` naming those that are."""
    from pliant.cli.cluster.reachability import monitor_reachability
    from pliant.cli.durations import format_duration
    from pliant.kube.cache.informer import Informer
    from pliant.kube.objects import Pod
    from pliant.kube.resources import PODS
    from pliant.model.labels import JOB_NAME_LABEL

    changed = asyncio.Event()
    informer: Informer[Pod] = Informer(
        target.client,
        PODS,
        Pod,
        namespace=job_object.key.namespace,
        labels=f"{JOB_NAME_LABEL}={job_object.key.name}",
        on_change=lambda old, new: changed.set(),
    )

    def left() -> list[str]:
        mine = (
            pod for pod in informer.store.all() if any(o.uid == job_object.uid for o in pod.metadata.owner_references)
        )
        return [pod.metadata.name for pod in mine]

    async with asyncio.TaskGroup() as tasks:
        following = [tasks.create_task(work) for work in (informer.run(), monitor_reachability(target.client))]
        try:
            async with asyncio.timeout(timeout.total_seconds()):
                await informer.wait_synced()
                while left():
                    changed.clear()
                    await changed.wait()
        except TimeoutError:
            names = ", ".join(left()[:3])
            raise WaitTimeout(f"pods are still there after {format_duration(timeout)} (--timeout): {names}") from None
        finally:
            for task in following:
                task.cancel()
