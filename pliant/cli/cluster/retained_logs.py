"""Reads the logs of deleted pods of a job, which a local cluster keeps as long as the job exists.

Other clusters are not asked: their kubelets delete the logs of a pod with the pod.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncGenerator, Iterable
from dataclasses import dataclass, replace
from urllib.parse import quote

import msgspec

from pliant.cli.cluster.job_context import JobContext, is_pod_name_of, load_job_context, natural_sort_key
from pliant.cli.cluster.job_lookup import JobObject
from pliant.embedded.program_annotations import PATH_ANNOTATION
from pliant.errors import Forbidden, NotFound
from pliant.kube.client import KubeClient
from pliant.kube.objects import Pod
from pliant.model.labels import ATTEMPT_LABEL

_DIRECTORY_PATTERN = re.compile(r'<a href="([^"_/]+)_([^"_/]+)_([^"_/]+)/">')
_MAX_CONCURRENT_REQUESTS = 16


@dataclass(frozen=True, slots=True)
class RetainedPodLogs:
    """The directory of pod logs of a local cluster, and the deleted pods of a job in it."""

    path: str = ""
    """The path of the directory on the API server; empty if the cluster has none."""
    pods: tuple[Pod, ...] = ()
    """By name, the earlier pods of a name first."""

    def stream_log(
        self, client: KubeClient, pod: Pod, container: str, query: dict[str, str], *, runs_before_last: int = 0
    ) -> AsyncGenerator[bytes, None]:
        """Read the log of the last run of a container, or of an earlier one; raise `NotFound` if there is none."""
        meta, status = pod.metadata, pod.status
        statuses = (*status.init_container_statuses, *status.container_statuses)
        last_run = next((each.restart_count for each in statuses if each.name == container), 0)
        directory = f"{self.path}{meta.namespace}_{meta.name}_{meta.uid}/{quote(container)}"
        return client.stream_raw(f"{directory}/{last_run - runs_before_last}.log", query)


async def find_retained_pods(client: KubeClient, job_object: JobObject) -> RetainedPodLogs:
    """Find the deleted pods of a job whose logs exist; none on other clusters, or without access to their nodes."""
    path, names = await _list_retained_directories(client, job_object)
    pods = await _read_pods(client, (f"{path}{name}/pod.json" for name in names))
    own = [pod for pod in pods if any(owner.uid == job_object.uid for owner in pod.metadata.owner_references)]
    return RetainedPodLogs(path, tuple(sorted(own, key=_age_order)))


async def load_context_with_logs(client: KubeClient, job_object: JobObject) -> JobContext:
    """Read the context of a job, and whether logs of deleted pods exist."""
    _, directories = await _list_retained_directories(client, job_object)
    return replace(await load_job_context(client, job_object), has_retained_logs=bool(directories))


async def _list_retained_directories(client: KubeClient, job_object: JobObject) -> tuple[str, list[str]]:
    """Return the path of the log directory and the directories of pods whose names are those of a job."""
    try:
        path = await _find_logs_path(client)
        return path, await _list_directories(client, path, job_object) if path else []
    except (Forbidden, NotFound):
        return "", []


def attempt_of(pod: Pod) -> int:
    """Return the attempt of a replica; 0 for pods that the master of the job created."""
    label = pod.metadata.labels.get(ATTEMPT_LABEL, "")
    return int(label) if label.isdecimal() else 0


async def _find_logs_path(client: KubeClient) -> str:
    """Return the path of the log directory, which all nodes of a local cluster share; empty on other clusters."""
    nodes = json.loads(await client.get_raw("/api/v1/nodes?limit=1")).get("items") or []
    local = [node["metadata"] for node in nodes if PATH_ANNOTATION in (node["metadata"].get("annotations") or {})]
    return f"/api/v1/nodes/{quote(local[0]['name'])}/proxy/logs/pods/" if local else ""


async def _list_directories(client: KubeClient, path: str, job_object: JobObject) -> list[str]:
    """List the directories of pods whose names are those of the job; other jobs may have some of them."""
    listing = (await client.get_raw(path, accept="*/*")).decode()
    job, key = job_object.job, job_object.key
    return [
        "_".join((namespace, pod_name, uid))
        for namespace, pod_name, uid in _DIRECTORY_PATTERN.findall(listing)
        if namespace == key.namespace
        if (is_pod_name_of(job, pod_name) if job is not None else key.name in pod_name)
    ]


async def _read_pods(client: KubeClient, paths: Iterable[str]) -> list[Pod]:
    limit = asyncio.Semaphore(_MAX_CONCURRENT_REQUESTS)

    async def read(path: str) -> Pod | None:
        async with limit:
            try:
                return msgspec.json.decode(await client.get_raw(path), type=Pod)
            except NotFound:  # the logs were deleted meanwhile
                return None

    return [pod for pod in await asyncio.gather(*map(read, paths)) if pod is not None]


def _age_order(pod: Pod) -> tuple[list[int | str], int, float]:
    created_at = pod.metadata.creation_timestamp
    return natural_sort_key(pod.metadata.name), attempt_of(pod), created_at.timestamp() if created_at else 0.0
