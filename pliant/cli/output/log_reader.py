"""Reads or follows the logs of the replicas of a job."""

from __future__ import annotations

import asyncio
from argparse import Namespace
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import suppress
from datetime import timedelta
from itertools import groupby
from typing import Any, NamedTuple, TextIO

from pliant.cli.cluster.job_context import (
    list_job_pods,
    natural_sort_key,
    pod_selector,
    replica_group_of,
    replica_index_of,
    replica_name,
)
from pliant.cli.cluster.job_lookup import JobObject, parse_job_object
from pliant.cli.cluster.retained_logs import RetainedPodLogs, attempt_of, find_retained_pods
from pliant.cli.cluster.waiting import raise_when_unreachable
from pliant.cli.output.log_lines import LineSplitter, LogPrefixes
from pliant.cli.output.log_streams import LogStreams, LogWindow
from pliant.cli.output.style import TerminalStyle
from pliant.errors import ApiError
from pliant.kube.cache.informer import Informer
from pliant.kube.client import KubeClient
from pliant.kube.objects import Pod
from pliant.kube.resources import PODS
from pliant.model.labels import normalize_group_name

DRAIN_IDLE_TIMEOUT = timedelta(seconds=2)  # how long streams of a finished job may be idle before they are closed


class _PodLog(NamedTuple):
    """The logs of one pod, and how its lines are prefixed."""

    pod: Pod
    prefix: str
    is_deleted: bool


class JobLogPrinter:
    """Writes the log lines of the selected replicas."""

    def __init__(self, client: KubeClient, job_object: JobObject, args: Namespace, out: TextIO) -> None:
        self._client = client
        self._job_object = job_object
        self._args = args
        self._out = out
        self._prefixes = LogPrefixes(TerminalStyle.for_stream(out))
        self._window = LogWindow(args.tail, int(args.since.total_seconds()) or 1 if args.since else None)
        self._retained = RetainedPodLogs()
        self._has_job_ended = asyncio.Event()

    async def print_existing(self) -> bool:
        """Write the existing and the retained logs, replica by replica; return whether there were any."""
        has_output = False
        pods = await list_job_pods(self._client, self._job_object)
        self._retained = await find_retained_pods(self._client, self._job_object)
        logs = [*self._pod_logs(pods, self._retained.pods)]
        self._prefixes.register(log.prefix for log in logs)
        for _, attempts in groupby(logs, lambda log: log.pod.metadata.name):
            if self._args.previous:
                has_output |= await self._print_previous([*attempts])
                continue
            for log in attempts:
                has_output |= await self._print_pod_log(log)
        self._out.flush()
        return has_output

    def _pod_logs(self, pods: Iterable[Pod], deleted: Iterable[Pod]) -> list[_PodLog]:
        """Return the selected logs by replica, the earliest attempt first; only the latest has a plain prefix."""
        found = [(pod, is_deleted) for each, is_deleted in ((deleted, True), (pods, False)) for pod in each]
        found.sort(key=lambda entry: natural_sort_key(entry[0].metadata.name))
        latest = {pod.metadata.name: pod.metadata.uid for pod, _ in found}
        return [
            _PodLog(pod, self._log_prefix(pod, is_latest=latest[pod.metadata.name] == pod.metadata.uid), is_deleted)
            for pod, is_deleted in found
            if self._is_selected(pod)
        ]

    async def _print_previous(self, attempts: Sequence[_PodLog]) -> bool:
        """Write the previous run of the containers of a replica, or else its previous attempt."""
        *earlier, latest = attempts
        if await self._print_pod_log(latest, is_previous=True):
            return True
        return bool(earlier) and await self._print_pod_log(earlier[-1])

    async def _print_pod_log(self, log: _PodLog, *, is_previous: bool = False) -> bool:
        has_output, spec = False, log.pod.spec
        for container in (*spec.init_containers, *spec.containers):
            if self._args.container in (None, container.name):
                has_output |= await self._print_container_log(log, container.name, is_previous=is_previous)
        return has_output

    async def follow(self, tasks: asyncio.TaskGroup) -> None:
        """Follow the logs until the job has ended or is deleted."""
        if (state := self._job_object.state) is not None and state.phase.is_final:
            await self.print_existing()
            return
        streams = LogStreams(self._client, tasks, self._write_line)
        present = await list_job_pods(self._client, self._job_object)
        self._prefixes.register(self._log_prefix(pod) for pod in present)
        known = {pod.metadata.uid for pod in present}

        def follow_pod(pod: Pod) -> None:
            # --tail and --since apply only to pods that exist already.
            if self._is_selected(pod) and any(o.uid == self._job_object.uid for o in pod.metadata.owner_references):
                streams.follow_pod(pod, self._window if pod.metadata.uid in known else None)

        informers = [
            tasks.create_task(informer.run())
            for informer in (self._pod_informer(follow_pod, streams.mark_pod_deleted), self._job_informer())
        ]
        informers.append(tasks.create_task(raise_when_unreachable(self._client)))
        await self._has_job_ended.wait()
        with suppress(ApiError):
            # The job watch may report the end before the pod watch reports the last containers.
            for pod in await list_job_pods(self._client, self._job_object):
                follow_pod(pod)
        await streams.drain_and_close(DRAIN_IDLE_TIMEOUT)
        for task in informers:
            task.cancel()
        self._out.flush()

    def _pod_informer(self, on_pod: Callable[[Pod], None], on_deleted: Callable[[Pod], None]) -> Informer[Pod]:
        def changed(old: Pod | None, new: Pod | None) -> None:
            if new is not None:
                on_pod(new)
            elif old is not None:
                on_deleted(old)

        namespace, selector = self._job_object.key.namespace, pod_selector(self._job_object)
        return Informer(self._client, PODS, Pod, namespace=namespace, labels=selector, on_change=changed)

    def _job_informer(self) -> Informer[dict[str, Any]]:
        def changed(old: dict[str, Any] | None, new: dict[str, Any] | None) -> None:
            state = parse_job_object(self._job_object.frontend, new).state if new is not None else None
            if new is None or (state is not None and state.phase.is_final):
                self._has_job_ended.set()

        key, resource = self._job_object.key, self._job_object.resource
        selector = f"metadata.name={key.name}"
        return Informer(self._client, resource, dict, namespace=key.namespace, fields=selector, on_change=changed)

    async def _print_container_log(self, log: _PodLog, container: str, *, is_previous: bool) -> bool:
        splitter, has_output = LineSplitter(), False
        try:
            async for chunk in self._read_log(log, container, is_previous=is_previous):
                for line in splitter.feed(chunk):
                    has_output = True
                    self._write(log.pod, log.prefix, container, line)
        except ApiError:
            return has_output  # not started, no previous instance, or the node is gone
        for line in splitter.flush():
            has_output = True
            self._write(log.pod, log.prefix, container, line)
        return has_output

    def _read_log(self, log: _PodLog, container: str, *, is_previous: bool) -> AsyncGenerator[bytes, None]:
        meta = log.pod.metadata
        if not log.is_deleted:
            return self._client.stream_logs(
                meta.namespace,
                meta.name,
                container=container,
                tail_lines=self._window.tail_lines,
                since_seconds=self._window.since_seconds,
                previous=is_previous,
            )
        limits = {"tailLines": self._window.tail_lines, "sinceSeconds": self._window.since_seconds}
        query = {name: str(limit) for name, limit in limits.items() if limit is not None}
        return self._retained.stream_log(self._client, log.pod, container, query, runs_before_last=int(is_previous))

    def _write_line(self, pod: Pod, container: str, line: str) -> None:
        self._write(pod, self._log_prefix(pod), container, line)

    def _write(self, pod: Pod, prefix: str, container: str, line: str) -> None:
        if self._args.container and container != self._args.container:
            return
        is_ambiguous = len(pod.spec.containers) + len(pod.spec.init_containers) > 1
        prefix = f"{prefix}/{container}" if is_ambiguous else prefix
        self._out.write(f"{self._prefixes.prefix_line(prefix, line) if self._args.prefix else line}\n")
        if self._args.follow:
            self._out.flush()

    def _is_selected(self, pod: Pod) -> bool:
        job, args = self._job_object.job, self._args
        if args.group and replica_group_of(job, pod) != normalize_group_name(args.group):
            return False
        if getattr(args, "attempt", None) is not None and attempt_of(pod) != args.attempt:
            return False
        return args.rank is None or replica_index_of(job, pod) == str(args.rank)

    def _log_prefix(self, pod: Pod, *, is_latest: bool = True) -> str:
        name = replica_name(self._job_object.job, pod)
        return name if is_latest else f"{name} (attempt {attempt_of(pod)})"
