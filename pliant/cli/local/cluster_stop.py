"""Waits until a cluster of `pliant up` has stopped, and shows which of its pods are still terminating."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from contextlib import aclosing
from pathlib import Path
from typing import Any

from pliant.cli.local.state_dir import RunningCluster
from pliant.errors import PliantError
from pliant.kube.client import KubeClient
from pliant.kube.client_config import create_transport
from pliant.kube.resources import PODS
from pliant.model.english import pluralize, summarize_names
from pliant.runtime.clock import SystemClock

DEFAULT_GRACE_SECONDS = 30.0
FIRST_PROGRESS_DELAY = 0.5  # seconds; most clusters have stopped before
PROGRESS_INTERVAL = 5.0  # seconds
API_TIMEOUT_SECONDS = 2.0  # the API server may be stopping, too


async def wait_for_exit(pidfd: int, timeout: float) -> bool:
    """Wait until a process has ended; return whether it has ended in time."""
    loop, exited = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(pidfd, exited.set)
    try:
        async with asyncio.timeout(max(timeout, 0.0)):
            await exited.wait()
    except TimeoutError:
        return False
    finally:
        loop.remove_reader(pidfd)
    return True


async def wait_for_pods_and_exit(pidfd: int, running: RunningCluster, margin: float) -> bool:
    """Wait until a cluster has terminated its pods and ended, at most for their longest grace period and the margin.

    Return whether it has ended in time. Print which pods it waits for.
    """
    if await wait_for_exit(pidfd, FIRST_PROGRESS_DELAY):
        return True
    loop, pods = asyncio.get_running_loop(), await _list_running_pods(running)
    deadline = loop.time() + max(map(_grace_period, pods), default=0.0) + margin
    while loop.time() < deadline:
        _print_progress(pods)
        if await wait_for_exit(pidfd, min(PROGRESS_INTERVAL, deadline - loop.time())):
            return True
        pods = await _list_running_pods(running)
    return False


def _print_progress(pods: list[Mapping[str, Any]]) -> None:
    if pods:
        names = summarize_names(sorted(pod["metadata"]["name"] for pod in pods))
        limit = f"grace period {max(map(_grace_period, pods)):.0f}s; `pliant down --now` does not wait"
        sys.stderr.write(f"waiting for {pluralize(len(pods), 'pod')} to terminate: {names} ({limit})\n")
        sys.stderr.flush()


async def _list_running_pods(running: RunningCluster) -> list[Mapping[str, Any]]:
    """Return the pods with running containers; none if the API server does not answer any more."""
    try:
        async with asyncio.timeout(API_TIMEOUT_SECONDS):
            async with aclosing(create_transport(Path(running.kubeconfig), None, SystemClock().now)) as transport:
                pods = (await KubeClient(transport).list(PODS)).items
    except (PliantError, OSError, TimeoutError):
        return []
    return [pod for pod in pods if _has_running_container(pod)]


def _has_running_container(pod: Mapping[str, Any]) -> bool:
    status = pod.get("status") or {}
    statuses = (*(status.get("containerStatuses") or ()), *(status.get("initContainerStatuses") or ()))
    return any("running" in each["state"] for each in statuses)


def _grace_period(pod: Mapping[str, Any]) -> float:
    return float(pod["spec"].get("terminationGracePeriodSeconds", DEFAULT_GRACE_SECONDS))
