"""Reads from the cluster what explains the state of a job."""

from __future__ import annotations

from dataclasses import replace

from pliant.cli.cluster.job_lookup import JobObject
from pliant.cli.cluster.retained_logs import load_context_with_logs
from pliant.cli.explain.job_explanation import JobEvidence, JobExplanation, earliest_failed_pods, explain_job
from pliant.cli.output.log_lines import LineSplitter
from pliant.errors import ApiError
from pliant.kube.client import KubeClient
from pliant.model.observed import ObservedPod
from pliant.runtime.clock import SystemClock

MAX_TAIL_LINES = 8


async def read_explanation(client: KubeClient, job_object: JobObject) -> JobExplanation:
    """Read the pods, nodes, events and log tails of a job, and explain its state."""
    context = await load_context_with_logs(client, job_object)
    evidence = JobEvidence(job_object=job_object, context=context, now=SystemClock().now())
    namespace, pods = job_object.key.namespace, earliest_failed_pods(evidence)
    tails = {pod.name: await _read_log_tail(client, namespace, pod) for pod in pods}
    return explain_job(replace(evidence, log_tails=tails))


async def _read_log_tail(client: KubeClient, namespace: str, pod: ObservedPod) -> tuple[str, ...]:
    """Return the last lines of the failed container; empty if its logs are deleted."""
    container = pod.exit.container if pod.exit and pod.exit.container else None
    splitter, lines = LineSplitter(), list[str]()
    try:
        async for chunk in client.stream_logs(namespace, pod.name, container=container, tail_lines=MAX_TAIL_LINES):
            lines += splitter.feed(chunk)
    except ApiError:
        return ()  # the node is gone, or its logs are deleted
    return tuple([*lines, *splitter.flush()][-MAX_TAIL_LINES:])
