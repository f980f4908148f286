"""Saves the state of the master as one JSON value whenever it has changed, so that its successor can continue.

A save is delayed by a second, or by three if only shards were assigned or completed. State lost in this time does no
harm: members report again what they did in the last seconds, and the new master advances beyond any rendezvous round
or generation that a member reports and it does not know.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Protocol

import msgspec

from pliant.errors import AlreadyExists, ApiError, Conflict, NotFound, PliantError
from pliant.kube.client import KubeClient
from pliant.kube.resources import CONFIG_MAPS

MAX_STATE_BYTES = 900_000  # a ConfigMap holds at most 1 MiB
STATE_FORMAT = 2
NON_URGENT_SAVE_INTERVALS = 2  # save intervals that may pass before a change that is not urgent is saved
MAX_BACKOFF_SECONDS = 10.0
STATE_CONFIGMAP_KEY = "state.json"
WRITER_ANNOTATION = "pliant/state-writer"

log = logging.getLogger(__name__)


class MasterSuperseded(PliantError):
    """Another master of this job has written the state; this one must stop."""


class MasterStateStore(Protocol):
    async def load(self) -> bytes | None:
        """Return the last saved value; None if there is none."""

    async def save(self, value: bytes) -> None:
        """Save a value; raise `MasterSuperseded` if another master has saved since."""


class InMemoryMasterStateStore:
    """Keeps the value in this process, for tests and for masters without a successor."""

    def __init__(self, value: bytes | None = None) -> None:
        self.value = value
        self.save_count = 0

    async def load(self) -> bytes | None:
        return self.value

    async def save(self, value: bytes) -> None:
        self.value = value
        self.save_count += 1


class MasterStateSaver:
    def __init__(self, store: MasterStateStore, dump_state: Callable[[], dict[str, Any]], save_interval: float) -> None:
        self._store = store
        self._dump_state = dump_state
        self._save_interval = save_interval
        self._changed, self._urgent = asyncio.Event(), asyncio.Event()

    def request_save(self, *, urgent: bool = True) -> None:
        """Save soon, or later if not urgent: members report again what they did in the last seconds."""
        self._changed.set()
        if urgent:
            self._urgent.set()

    async def load_and_claim_state(self) -> dict[str, Any] | None:
        """Return the saved state, and save it again at once, so that an earlier master learns that it is superseded."""
        saved = await self._store.load()
        if saved is None:
            return None
        try:
            state = msgspec.json.decode(saved, type=dict[str, Any])
        except msgspec.MsgspecError as error:
            state = {"format": f"unreadable ({error})"}
        if state.get("format") != STATE_FORMAT:
            log.error("saved state ignored", extra={"reason": f"format is {state.get('format')}, not {STATE_FORMAT}"})
            return None
        await self._store.save(saved)
        return state

    async def save_changes_forever(self) -> None:
        delay = self._save_interval
        while True:
            await self._changed.wait()
            with suppress(TimeoutError):
                # Not wait_for: in Python 3.11 it can lose a cancellation that arrives together with the event.
                async with asyncio.timeout(NON_URGENT_SAVE_INTERVALS * self._save_interval):
                    await self._urgent.wait()
            try:
                await self.save_if_changed()
                delay = self._save_interval
            except ApiError as error:
                self._changed.set()
                delay = min(2 * delay, MAX_BACKOFF_SECONDS)
                log.warning("state not saved", extra={"error": str(error)})
            await asyncio.sleep(delay)

    async def save_if_changed(self) -> None:
        if not self._changed.is_set():
            return
        self._changed.clear()
        self._urgent.clear()
        state = {"format": STATE_FORMAT, **self._dump_state()}
        value = msgspec.json.encode(state)
        if len(value) > MAX_STATE_BYTES:
            sizes = {name: len(msgspec.json.encode(part)) for name, part in state.items()}
            log.error("state too large to save", extra={"bytes": len(value), "limit": MAX_STATE_BYTES, "parts": sizes})
            return
        await self._store.save(value)


def state_configmap_name(job_name: str) -> str:
    return f"elasticjob-{job_name}-dlrover-master-state"


class ConfigMapMasterStateStore:
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
        text = configmap.get("data", {}).get(STATE_CONFIGMAP_KEY)
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
        return {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": metadata,
            "data": {STATE_CONFIGMAP_KEY: value.decode()},
        }

    async def _read_configmap(self) -> dict[str, Any] | None:
        try:
            return await self._client.get(CONFIG_MAPS, self._namespace, self._name)
        except NotFound:
            return None
