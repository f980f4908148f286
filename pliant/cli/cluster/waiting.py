"""Waits until a job reaches a state, or until a timeout."""

from __future__ import annotations

import asyncio
from argparse import ArgumentParser
from collections.abc import Callable, Collection
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from pliant.cli.durations import format_duration
from pliant.cli.input.local_cluster_options import parse_duration_option
from pliant.errors import ApiError, PliantError, ServerError, Unreachable
from pliant.kube.resources import PODS

if TYPE_CHECKING:
    from pliant.cli.cluster.job_lookup import JobObject
    from pliant.cli.cluster.target import ClusterTarget
    from pliant.kube.cache.informer import Informer
    from pliant.kube.client import KubeClient

DEFAULT_WAIT_TIMEOUT = timedelta(minutes=5)
UNLIMITED_WAIT_TIMEOUT = timedelta(days=365)  # longer than any wait


REACHABILITY_CHECK_INTERVAL_SECONDS = 5.0  # seconds
REACHABILITY_TIMEOUT_SECONDS = 10.0  # seconds, including retries


class ClusterLost(PliantError):
    """The cluster does not respond any more."""


class WaitTimeout(PliantError):
    """The expected state was not reached within the timeout; it may be reached later."""

    def __init__(self, problem: str, state: str = "") -> None:
        super().__init__(f"{problem} (--timeout){state}")
        self.problem = problem
        self.state = state


def add_wait_options(parser: ArgumentParser, goal: str, timeout: timedelta = DEFAULT_WAIT_TIMEOUT) -> None:
    default = "5m" if timeout is DEFAULT_WAIT_TIMEOUT else "no limit"
    parser.add_argument("--wait", action="store_true", help=f"Wait until {goal}")
    timeout_help = f"Time limit of --wait ({default})"
    parser.add_argument("--timeout", type=parse_duration_option, default=timeout, metavar="TIME", help=timeout_help)


async def wait_for_job(
    target: ClusterTarget,
    job_object: JobObject,
    is_done: Callable[[JobObject | None], bool],
    timeout: timedelta,
    goal: str,
) -> JobObject | None:
    """Return the job once `is_done` accepts it, None if it was deleted; raise WaitTimeout after the timeout."""
    from pliant.cli.cluster.job_lookup import parse_job_object

    latest: JobObject | None = job_object
    changed = asyncio.Event()

    def on_change(old: dict[str, Any] | None, new: dict[str, Any] | None) -> None:
        nonlocal latest
        is_same = new is not None and new["metadata"].get("uid") == job_object.uid
        latest = parse_job_object(job_object.frontend, new) if new is not None and is_same else None
        changed.set()

    informer = _job_informer(target, job_object, on_change)
    async with asyncio.TaskGroup() as tasks:
        background = [tasks.create_task(work) for work in (informer.run(), raise_when_unreachable(target.client))]
        try:
            async with asyncio.timeout(timeout.total_seconds()):
                await informer.wait_synced()
                if not len(informer.store):
                    latest = None
                while not is_done(latest):
                    changed.clear()
                    await changed.wait()
        except TimeoutError:
            state = f"; its phase is {latest.phase}: {latest.message}" if latest else ""
            expired = f"not {goal} after {format_duration(timeout)}"
            raise WaitTimeout(f"{job_object.key.name}: {expired}", state) from None
        finally:
            for task in background:
                task.cancel()
    return latest


def _job_informer(
    target: ClusterTarget, job_object: JobObject, on_change: Callable[..., None]
) -> Informer[dict[str, Any]]:
    from pliant.kube.cache.informer import Informer

    selector = f"metadata.name={job_object.key.name}"
    namespace, resource = job_object.key.namespace, job_object.resource
    return Informer(target.client, resource, dict, namespace=namespace, fields=selector, on_change=on_change)


async def wait_for_pods_deleted(
    target: ClusterTarget, job_object: JobObject, timeout: timedelta, *, kept_groups: Collection[str] = ()
) -> None:
    """Return once the job has no pods, except those of `kept_groups`; raise WaitTimeout after the timeout."""
    from pliant.cli.cluster.job_context import pod_selector, replica_group_of
    from pliant.kube.cache.informer import Informer
    from pliant.kube.objects import Pod
    from pliant.model.labels import normalize_group_name

    changed = asyncio.Event()
    informer: Informer[Pod] = Informer(
        target.client,
        PODS,
        Pod,
        namespace=job_object.key.namespace,
        labels=pod_selector(job_object),
        on_change=lambda old, new: changed.set(),
    )

    kept = {normalize_group_name(name) for name in kept_groups}

    def remaining_pods() -> list[str]:
        own = [p for p in informer.store.all() if any(o.uid == job_object.uid for o in p.metadata.owner_references)]
        return [pod.metadata.name for pod in own if replica_group_of(job_object.job, pod) not in kept]

    async with asyncio.TaskGroup() as tasks:
        background = [tasks.create_task(work) for work in (informer.run(), raise_when_unreachable(target.client))]
        try:
            async with asyncio.timeout(timeout.total_seconds()):
                await informer.wait_synced()
                while remaining_pods():
                    changed.clear()
                    await changed.wait()
        except TimeoutError:
            names = ", ".join(remaining_pods()[:3])
            raise WaitTimeout(f"pods not deleted after {format_duration(timeout)}", f": {names}") from None
        finally:
            for task in background:
                task.cancel()


async def wait_deleted(target: ClusterTarget, job_object: JobObject, timeout: timedelta) -> None:
    """Return once a job and its pods are gone; raise WaitTimeout after the timeout."""
    await wait_for_job(target, job_object, lambda latest: latest is None, timeout, "deleted")
    await wait_for_pods_deleted(target, job_object, timeout)


async def raise_when_unreachable(client: KubeClient) -> None:
    """Return never while the cluster responds; raise ClusterLost when it does not.

    Informers retry forever, which suits an operator but not an interactive command.
    """
    while True:
        await asyncio.sleep(REACHABILITY_CHECK_INTERVAL_SECONDS)
        try:
            async with asyncio.timeout(REACHABILITY_TIMEOUT_SECONDS):
                await client.get_raw("/version")
        except TimeoutError:
            raise ClusterLost(f"the cluster did not respond within {REACHABILITY_TIMEOUT_SECONDS:g} seconds") from None
        except (Unreachable, ServerError) as error:
            raise ClusterLost(f"the cluster does not respond any more: {error}") from error
        except ApiError:
            continue  # an error response is a response
