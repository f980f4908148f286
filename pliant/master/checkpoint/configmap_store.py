"""Keeps the memory of a job's masters in a ConfigMap, where only the newest of them may write."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from pliant.errors import AlreadyExists, Conflict, NotFound
from pliant.kube.client import KubeClient
from pliant.kube.resources import CONFIG_MAPS
from pliant.master.checkpoint.checkpointer import MasterSuperseded

STATE_KEY = "state.json"
WRITER_ANNOTATION = "pliant/master"
"""The annotation that names the master who wrote last."""

log = logging.getLogger(__name__)


def state_configmap_name(job_name: str) -> str:
    """The ConfigMap of a job."""
    return f"elasticjob-{job_name}-dlrover-master-state"


class ConfigMapCheckpointStore:
    """The ConfigMap of one job, as one master writes it."""

    def __init__(self, client: KubeClient, namespace: str, owner: Mapping[str, Any], identity: str) -> None:
        """The owner is the ElasticJob's reference, with name and uid; no two masters have the same identity."""
        self._client = client
        self._namespace = namespace
        self._name = state_configmap_name(owner["name"])
        self._owner = owner
        self._identity = identity
        self._resource_version: str | None = None

    async def load(self) -> bytes | None:
        """What was saved last; a value of an earlier job of that name is not ours."""
        found = await self._read_configmap()
        if found is None:
            return None
        self._resource_version = found["metadata"]["resourceVersion"]
        owners = [owner.get("uid") for owner in found["metadata"].get("ownerReferences", [])]
        text = found.get("data", {}).get(STATE_KEY)
        if self._owner["uid"] not in owners or text is None:
            log.warning("memory of another job left aside", extra={"configmap": self._name})
            return None
        return str(text).encode()

    async def save(self, value: bytes) -> None:
        """Keep a value in place of the last; raises Superseded if another master wrote that."""
        try:
            await self._write_configmap(value)
        except Conflict:
            # It may be our own write whose answer never came.
            found = await self._read_configmap()
            writer = found["metadata"].get("annotations", {}).get(WRITER_ANNOTATION) if found else None
            if found is not None and writer != self._identity:
                raise MasterSuperseded(
                    f"{writer} writes {self._name} now: another master of this job is at work"
                ) from None
            self._resource_version = found["metadata"]["resourceVersion"] if found else None
            await self._write_configmap(value)

    async def _write_configmap(self, value: bytes) -> None:
        if self._resource_version is None:
            try:
                written = await self._client.create(CONFIG_MAPS, self._namespace, self._configmap_body(value))
            except AlreadyExists as problem:
                raise Conflict(409, "Conflict", str(problem)) from None
        else:
            try:
                written = await self._client.replace(
                    CONFIG_MAPS, self._namespace, self._name, self._configmap_body(value)
                )
            except NotFound:
                # Somebody deleted it; a master that was replaced would have found it there.
                self._resource_version = None
                written = await self._client.create(CONFIG_MAPS, self._namespace, self._configmap_body(value))
        self._resource_version = written["metadata"]["resourceVersion"]

    def _configmap_body(self, value: bytes) -> dict[str, Any]:
        metadata: dict[str, Any] = {
            "name": self._name,
            "namespace": self._namespace,
            "labels": {"app": "dlrover", "elasticjob.dlrover/name": self._owner["name"]},
            "annotations": {WRITER_ANNOTATION: self._identity},
            "ownerReferences": [dict(self._owner)],
        }
        if self._resource_version is not None:
            metadata["resourceVersion"] = self._resource_version
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {STATE_KEY: value.decode()}}

    async def _read_configmap(self) -> dict[str, Any] | None:
        try:
            return await self._client.get(CONFIG_MAPS, self._namespace, self._name)
        except NotFound:
            return None
