"""Reads the progress of a job from the logs of its replicas."""

from __future__ import annotations

import asyncio
from datetime import datetime

from pliant.cli.cluster.job_context import list_job_pods, replica_name
from pliant.cli.cluster.job_lookup import JobObject
from pliant.cli.history.job_history import ProgressSample, ReplicaProgress
from pliant.cli.output.job_summary import progress_reporter_name
from pliant.cli.output.log_lines import LineSplitter
from pliant.cli.output.progress import parse_progress_line
from pliant.errors import ApiError, Forbidden
from pliant.kube.client import KubeClient
from pliant.kube.objects import Pod

MAX_READ_PODS = 8  # replicas print the same progress: reading more logs only takes longer
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


async def read_log_progress(client: KubeClient, job_object: JobObject) -> ReplicaProgress | None:
    """Return the progress of the replica whose log contains most of it; None if no log contains any."""
    try:
        pods = await list_job_pods(client, job_object)
    except Forbidden:
        return None
    reporter = progress_reporter_name(job_object)
    first = sorted(pods, key=lambda pod: replica_name(job_object.job, pod) != reporter)[:MAX_READ_PODS]
    pods = [pod for pod in pods if pod in first]
    samples = await asyncio.gather(*(_read_pod(client, pod) for pod in pods))
    if not any(samples):
        return None
    longest = max(range(len(pods)), key=lambda index: len(samples[index]))
    return ReplicaProgress(replica_name(job_object.job, pods[longest]), samples[longest])


async def _read_pod(client: KubeClient, pod: Pod) -> list[ProgressSample]:
    """Return the samples of the container that reports most progress."""
    return max([await _read_container(client, pod, each.name) for each in pod.spec.containers], key=len, default=[])


async def _read_container(client: KubeClient, pod: Pod, container: str) -> list[ProgressSample]:
    splitter, collector, meta = LineSplitter(), SampleCollector(), pod.metadata
    try:
        async for chunk in client.stream_logs(
            meta.namespace, meta.name, container=container, tail_lines=MAX_READ_LINES, timestamps=True
        ):
            for line in splitter.feed(chunk):
                collector.add_line(line)
    except ApiError:
        pass  # not started, or the node is gone: what was read is of use all the same
    for line in splitter.flush():
        collector.add_line(line)
    return collector.samples
