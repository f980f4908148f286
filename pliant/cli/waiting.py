"""Waits until a job is as wanted, and no longer than a person wants to."""

from __future__ import annotations

import asyncio
from argparse import ArgumentParser
from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from pliant.cli.cluster_options import duration
from pliant.errors import PliantError

if TYPE_CHECKING:
    from pliant.cli.jobs import Found
    from pliant.cli.target import Target
    from pliant.kube.informer import Informer

PATIENCE = timedelta(minutes=5)
FOREVER = timedelta(days=365)
"""Longer than anybody waits."""


class TookTooLong(PliantError):
    """What was waited for has not come; it may come yet."""


def add_wait_options(parser: ArgumentParser, what: str, limit: timedelta = PATIENCE) -> None:
    """Let people wait for the effect."""
    usual = "5m" if limit is PATIENCE else "no limit"
    parser.add_argument("--wait", action="store_true", help=f"wait until {what}")
    parser.add_argument(
        "--timeout", type=duration, default=limit, metavar="TIME", help=f"at most so long ({usual})"
    )


async def wait_until(
    target: Target, one: Found, is_done: Callable[[Found | None], bool], limit: timedelta, what: str
) -> Found | None:
    """The job once it is so; None when it is gone. Raises `TookTooLong` when it takes too long."""
    from pliant.cli.durations import duration_text
    from pliant.cli.heartbeat import heartbeat
    from pliant.cli.jobs import found

    latest: Found | None = one
    changed = asyncio.Event()

    def note(old: dict[str, Any] | None, new: dict[str, Any] | None) -> None:
        nonlocal latest
        is_same = new is not None and new["metadata"].get("uid") == one.uid
        latest = found(one.frontend, new) if new is not None and is_same else None
        changed.set()

    informer = _informer_of(target, one, note)
    async with asyncio.TaskGroup() as tasks:
        following = [tasks.create_task(work) for work in (informer.run(), heartbeat(target.client))]
        try:
            async with asyncio.timeout(limit.total_seconds()):
                await informer.wait_synced()
                if not len(informer.store):
                    latest = None
                while not is_done(latest):
                    changed.clear()
                    await changed.wait()
        except TimeoutError:
            stands = f"; it stands at {latest.phase}: {latest.message}" if latest else ""
            raise TookTooLong(
                f"{one.key.name}: not {what} after {duration_text(limit)} (--timeout){stands}"
            ) from None
        finally:
            for task in following:
                task.cancel()
    return latest


def _informer_of(target: Target, one: Found, on_change: Callable[..., None]) -> Informer[dict[str, Any]]:
    from pliant.kube.informer import Informer

    chosen = f"metadata.name={one.key.name}"
    return Informer(
        target.client, one.resource, dict, namespace=one.key.namespace, fields=chosen, on_change=on_change
    )


async def wait_no_pods(target: Target, one: Found, limit: timedelta) -> None:
    """Return once no pod of a job is left; raises `TookTooLong` naming those that are."""
    from pliant.cli.durations import duration_text
    from pliant.cli.heartbeat import heartbeat
    from pliant.kube.informer import Informer
    from pliant.kube.objects import Pod
    from pliant.kube.resources import PODS
    from pliant.model.labels import JOB

    changed = asyncio.Event()
    informer: Informer[Pod] = Informer(
        target.client,
        PODS,
        Pod,
        namespace=one.key.namespace,
        labels=f"{JOB}={one.key.name}",
        on_change=lambda old, new: changed.set(),
    )

    def left() -> list[str]:
        mine = (
            pod for pod in informer.store.all() if any(o.uid == one.uid for o in pod.metadata.owner_references)
        )
        return [pod.metadata.name for pod in mine]

    async with asyncio.TaskGroup() as tasks:
        following = [tasks.create_task(work) for work in (informer.run(), heartbeat(target.client))]
        try:
            async with asyncio.timeout(limit.total_seconds()):
                await informer.wait_synced()
                while left():
                    changed.clear()
                    await changed.wait()
        except TimeoutError:
            names = ", ".join(left()[:3])
            raise TookTooLong(f"pods are still there after {duration_text(limit)} (--timeout): {names}") from None
        finally:
            for task in following:
                task.cancel()
