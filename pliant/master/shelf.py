"""Keeps the memory of a job's masters in a ConfigMap, where only the newest of them may write."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from pliant.errors import AlreadyExists, Conflict, NotFound
from pliant.kube.client import KubeClient
from pliant.kube.resources import CONFIG_MAPS
from pliant.master.memory import Superseded

KEY = "state.json"
WRITER = "pliant/master"
"""The annotation that names the master who wrote last."""

log = logging.getLogger(__name__)


def shelf_name(job: str) -> str:
    """The ConfigMap of a job."""
    return f"elasticjob-{job}-dlrover-master-state"


class ConfigMapShelf:
    """The ConfigMap of one job, as one master writes it."""

    def __init__(self, client: KubeClient, namespace: str, owner: Mapping[str, Any], identity: str) -> None:
        """The owner is the ElasticJob's reference, with name and uid; no two masters have the same identity."""
        self._client = client
        self._namespace = namespace
        self._name = shelf_name(owner["name"])
        self._owner = owner
        self._identity = identity
        self._version: str | None = None

    async def load(self) -> bytes | None:
        """What was saved last; a value of an earlier job of that name is not ours."""
        found = await self._found()
        if found is None:
            return None
        self._version = found["metadata"]["resourceVersion"]
        owners = [owner.get("uid") for owner in found["metadata"].get("ownerReferences", [])]
        text = found.get("data", {}).get(KEY)
        if self._owner["uid"] not in owners or text is None:
            log.warning("memory of another job left aside", extra={"configmap": self._name})
            return None
        return str(text).encode()

    async def save(self, value: bytes) -> None:
        """Keep a value in place of the last; raises Superseded if another master wrote that."""
        try:
            await self._write(value)
        except Conflict:
            # It may be our own write whose answer never came.
            found = await self._found()
            writer = found["metadata"].get("annotations", {}).get(WRITER) if found else None
            if found is not None and writer != self._identity:
                raise Superseded(
                    f"{writer} writes {self._name} now: another master of this job is at work"
                ) from None
            self._version = found["metadata"]["resourceVersion"] if found else None
            await self._write(value)

    async def _write(self, value: bytes) -> None:
        if self._version is None:
            try:
                written = await self._client.create(CONFIG_MAPS, self._namespace, self._body(value))
            except AlreadyExists as problem:
                raise Conflict(409, "Conflict", str(problem)) from None
        else:
            try:
                written = await self._client.replace(CONFIG_MAPS, self._namespace, self._name, self._body(value))
            except NotFound:
                # Somebody deleted it; a master that was replaced would have found it there.
                self._version = None
                written = await self._client.create(CONFIG_MAPS, self._namespace, self._body(value))
        self._version = written["metadata"]["resourceVersion"]

    def _body(self, value: bytes) -> dict[str, Any]:
        metadata: dict[str, Any] = {
            "name": self._name,
            "namespace": self._namespace,
            "labels": {"app": "dlrover", "elasticjob.dlrover/name": self._owner["name"]},
            "annotations": {WRITER: self._identity},
            "ownerReferences": [dict(self._owner)],
        }
        if self._version is not None:
            metadata["resourceVersion"] = self._version
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {KEY: value.decode()}}

    async def _found(self) -> dict[str, Any] | None:
        try:
            return await self._client.get(CONFIG_MAPS, self._namespace, self._name)
        except NotFound:
            return None
