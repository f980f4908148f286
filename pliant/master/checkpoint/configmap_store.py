"""Stores the state of a master in a ConfigMap, which only the newest master of the job may write."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from pliant.errors import AlreadyExists, Conflict, NotFound
from pliant.kube.client import KubeClient
from pliant.kube.resources import CONFIG_MAPS
from pliant.master.checkpoint.checkpointer import MasterSuperseded

STATE_KEY = "state.json"
WRITER_ANNOTATION = "pliant/state-writer"
"""Names the master that wrote last."""

log = logging.getLogger(__name__)


def state_configmap_name(job_name: str) -> str:
    return f"elasticjob-{job_name}-dlrover-master-state"


class ConfigMapCheckpointStore:
    """The state ConfigMap of one job, as one master writes it."""

    def __init__(self, client: KubeClient, namespace: str, owner: Mapping[str, Any], identity: str) -> None:
        """`owner` is the owner reference of the ElasticJob; `identity` must be unique among all masters of the job."""
        self._client = client
        self._namespace = namespace
        self._name = state_configmap_name(owner["name"])
        self._owner = owner
        self._identity = identity
        self._resource_version: str | None = None

    async def load(self) -> bytes | None:
        """Return the saved state; None if it belongs to an earlier job of this name."""
        configmap = await self._read_configmap()
        if configmap is None:
            return None
        self._resource_version = configmap["metadata"]["resourceVersion"]
        owners = [owner.get("uid") for owner in configmap["metadata"].get("ownerReferences", [])]
        text = configmap.get("data", {}).get(STATE_KEY)
        if self._owner["uid"] not in owners or text is None:
            log.warning("saved state of another job ignored", extra={"configmap": self._name})
            return None
        return str(text).encode()

    async def save(self, value: bytes) -> None:
        try:
            await self._write_configmap(value)
        except Conflict:
            # The conflict may come from our own write whose response was lost.
            configmap = await self._read_configmap()
            writer = configmap["metadata"].get("annotations", {}).get(WRITER_ANNOTATION) if configmap else None
            if configmap is not None and writer != self._identity:
                raise MasterSuperseded(
                    f"{writer} writes {self._name} now: another master of this job is running"
                ) from None
            self._resource_version = configmap["metadata"]["resourceVersion"] if configmap else None
            await self._write_configmap(value)

    async def _write_configmap(self, value: bytes) -> None:
        if self._resource_version is None:
            try:
                written = await self._client.create(CONFIG_MAPS, self._namespace, self._configmap_body(value))
            except AlreadyExists as error:
                raise Conflict(409, "Conflict", str(error)) from None
        else:
            try:
                written = await self._client.replace(
                    CONFIG_MAPS, self._namespace, self._name, self._configmap_body(value)
                )
            except NotFound:
                # It was deleted by a user; a newer master would have kept it.
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
