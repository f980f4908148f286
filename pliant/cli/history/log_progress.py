"""Reads the progress of a job from the logs of its replicas."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from datetime import datetime

from pliant.cli.cluster.job_context import list_job_pods, replica_name
from pliant.cli.cluster.job_lookup import JobObject
from pliant.cli.cluster.retained_logs import RetainedPodLogs, find_retained_pods
from pliant.cli.history.job_history import ProgressSample, ReplicaProgress
from pliant.cli.output.job_summary import progress_reporter_name
from pliant.cli.output.log_lines import LineSplitter
from pliant.cli.output.progress import parse_progress_line
from pliant.errors import ApiError, Forbidden
from pliant.kube.client import KubeClient
from pliant.kube.objects import Pod

MAX_READ_REPLICAS = 8  # replicas print the same progress: reading more logs only takes longer
MAX_READ_LINES = 100_000  # the last lines of each log
MAX_LOG_SAMPLES = 2_000
PERCENT_METRIC = "percent"


class SampleCollector:
    """Collects a bounded number of samples; when it is full, it keeps every second one, and so of those that follow."""

    def __init__(self, limit: int = MAX_LOG_SAMPLES) -> None:
        self.samples: list[ProgressSample] = []
        self._limit = limit
        self._stride = 1
        self._count = 0

    def add_line(self, line: str) -> None:
        """Add the progress that a line with a timestamp reports."""
        timestamp, _, text = line.partition(" ")
        progress = parse_progress_line(text)
        if progress is None:
            return
        try:
            at = datetime.fromisoformat(timestamp)
        except ValueError:
            return  # an error of the node, or a progress bar that has overwritten the timestamp
        self._count += 1
        if at.tzinfo is None or (self._count - 1) % self._stride:
            return
        metrics = dict(progress.metrics)
        if progress.step is None and progress.percent is not None:
            metrics[PERCENT_METRIC] = progress.percent
        self.samples.append(ProgressSample(at=at, step=progress.step, metrics=metrics))
        if len(self.samples) >= self._limit:
            self.samples, self._stride = self.samples[::2], 2 * self._stride


@dataclass(frozen=True, slots=True)
class _LogSource:
    """The logs of a job: those of its pods, and those of its deleted pods that a local cluster keeps."""

    client: KubeClient
    retained: RetainedPodLogs

    def stream_log(self, pod: Pod, container: str) -> AsyncGenerator[bytes, None]:
        if pod in self.retained.pods:
            query = {"tailLines": str(MAX_READ_LINES), "timestamps": "true"}
            return self.retained.stream_log(self.client, pod, container, query)
        meta = pod.metadata
        return self.client.stream_logs(
            meta.namespace, meta.name, container=container, tail_lines=MAX_READ_LINES, timestamps=True
        )


async def read_log_progress(client: KubeClient, job_object: JobObject) -> ReplicaProgress | None:
    """Return the progress of the replica whose logs contain most of it; None if no log contains any."""
    try:
        pods = await list_job_pods(client, job_object)
    except Forbidden:
        return None
    source = _LogSource(client, await find_retained_pods(client, job_object))
    attempts: dict[str, list[Pod]] = {}
    for pod in (*source.retained.pods, *pods):  # the deleted pods of a replica are its earlier attempts
        attempts.setdefault(replica_name(job_object.job, pod), []).append(pod)
    reporter = progress_reporter_name(job_object)
    replicas = sorted(attempts, key=lambda name: name != reporter)[:MAX_READ_REPLICAS]
    samples = await asyncio.gather(*(_read_replica(source, attempts[name]) for name in replicas))
    found = [ReplicaProgress(*each) for each in zip(replicas, samples, strict=True)]
    best = max(found, key=lambda progress: len(progress.samples), default=None)
    return best if best is not None and best.samples else None


async def _read_replica(source: _LogSource, attempts: Sequence[Pod]) -> list[ProgressSample]:
    return [sample for pod in attempts for sample in await _read_pod(source, pod)]


async def _read_pod(source: _LogSource, pod: Pod) -> list[ProgressSample]:
    """Return the samples of the container that reports most progress."""
    return max([await _read_container(source, pod, each.name) for each in pod.spec.containers], key=len, default=[])


async def _read_container(source: _LogSource, pod: Pod, container: str) -> list[ProgressSample]:
    splitter, collector = LineSplitter(), SampleCollector()
    try:
        async for chunk in source.stream_log(pod, container):
            for line in splitter.feed(chunk):
                collector.add_line(line)
    except ApiError:
        pass  # not started, or the node is gone: what was read is of use all the same
    for line in splitter.flush():
        collector.add_line(line)
    return collector.samples
