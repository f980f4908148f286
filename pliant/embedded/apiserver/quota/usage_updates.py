"""Keeps the status of ResourceQuotas right: after their creation, and after objects are deleted or end."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Final

from pliant.embedded.apiserver.admission.admission import CRDS_RESOURCE_KEY
from pliant.embedded.apiserver.handlers.object_lifecycle import FINISHED_POD_PHASES, PODS_RESOURCE_KEY
from pliant.embedded.apiserver.quota.amounts import ZERO, Amounts, add, are_equal, count_of, select
from pliant.embedded.apiserver.quota.evaluators import Evaluator, is_counted
from pliant.embedded.apiserver.quota.pod_evaluator import deletion_deadline
from pliant.embedded.apiserver.quota.stored_quotas import (
    RESOURCE_QUOTAS_RESOURCE_KEY,
    SPECIAL_EVALUATORS,
    StoredQuota,
    evaluator_of,
    list_quotas,
)
from pliant.embedded.registry.kind_registry import KindRegistry
from pliant.embedded.registry.kinds import Kind
from pliant.embedded.storage.store import Store, Transaction
from pliant.embedded.storage.stored_objects import ObjectChange, ObjectKey, StoredObject
from pliant.errors import ServerError
from pliant.runtime.clock import Clock

_RETRY_SECONDS: Final = 1.0
_MIN_INTERVAL_SECONDS: Final = 0.05
"""Between two computations: deletions often come in groups, and each computation reads all objects of a namespace."""
_DEADLINE_TOLERANCE_SECONDS: Final = 1.0
_RECOUNTED_ON_UPDATE: Final = frozenset({"/services", "/persistentvolumeclaims"})


class QuotaUsageUpdater:
    """Computes the usage of the quotas of a namespace anew when it may have decreased; writes only differences."""

    def __init__(self, store: Store, registry: KindRegistry, clock: Clock) -> None:
        self._store = store
        self._registry = registry
        self._clock = clock
        self._namespaces: dict[str, None] = {}
        self._wake = asyncio.Event()
        self._usages: dict[ObjectKey, tuple[int, Amounts]] = {}
        """The version and usage of objects that were counted before."""
        self._deadlines: dict[str, datetime] = {}
        """The first deadline of the terminating pods of a namespace: after it, the pod does not count any more."""

    async def run(self) -> None:
        self._store.add_listener(self._on_commit)
        self._enqueue_all()
        while True:
            await self._wait_for_work()
            namespaces, self._namespaces = list(self._namespaces), {}
            for namespace in namespaces:
                await self._update_namespace(namespace)
            await asyncio.sleep(_MIN_INTERVAL_SECONDS)

    async def _wait_for_work(self) -> None:
        """Wait until an object or a deadline has changed the usage of a namespace."""
        while not self._namespaces:
            delays = [(deadline - self._clock.now()).total_seconds() for deadline in self._deadlines.values()]
            with suppress(TimeoutError):
                async with asyncio.timeout(max(min(delays), 0) + _DEADLINE_TOLERANCE_SECONDS if delays else None):
                    await self._wake.wait()
            self._wake.clear()
            for namespace, deadline in list(self._deadlines.items()):
                if self._clock.now() > deadline:
                    del self._deadlines[namespace]
                    self._enqueue(namespace)
        self._wake.clear()

    def _enqueue(self, namespace: str) -> None:
        self._namespaces[namespace] = None
        self._wake.set()

    def _enqueue_all(self) -> None:
        for record in self._store.committed.list_objects(RESOURCE_QUOTAS_RESOURCE_KEY):
            self._enqueue(record.key.namespace)

    def _on_commit(self, changes: Sequence[ObjectChange]) -> None:
        for change in changes:
            if change.is_deleted:
                self._usages.pop(change.after.key, None)
            if change.after.key.resource == CRDS_RESOURCE_KEY:
                self._enqueue_all()  # quotas may count objects of its kinds
            namespace = change.after.key.namespace
            if not namespace or not self._store.committed.has_objects(RESOURCE_QUOTAS_RESOURCE_KEY, namespace):
                continue
            if _may_change_usage(change):
                self._enqueue(namespace)
            elif change.after.key.resource == PODS_RESOURCE_KEY and change.after.is_terminating:
                self._note_deadline(namespace, deletion_deadline(change.after.decode()))
                self._wake.set()

    def _note_deadline(self, namespace: str, deadline: datetime | None) -> None:
        if deadline is not None and deadline >= self._clock.now():
            self._deadlines[namespace] = min(deadline, self._deadlines.get(namespace, deadline))

    async def _update_namespace(self, namespace: str) -> None:
        try:
            await self._store.run_transaction(lambda transaction: self._update_quotas(transaction, namespace))
        except ServerError:
            # The store cannot write, for example because the disk is full.
            self._enqueue(namespace)
            await asyncio.sleep(_RETRY_SECONDS)

    def _update_quotas(self, transaction: Transaction, namespace: str) -> None:
        for quota in list_quotas(transaction, namespace):
            used = self._compute_usage(transaction, namespace, quota)
            is_current = quota.has_status and are_equal(quota.hard, quota.spec_hard)
            if not is_current or not are_equal(used, quota.used):
                quota.store_usage(transaction, used, quota.spec_hard)

    def _compute_usage(self, transaction: Transaction, namespace: str, quota: StoredQuota) -> Amounts:
        used: Amounts = {}
        for kind in self._counted_kinds(quota):
            evaluator = evaluator_of(kind.qualified_name)
            names = evaluator.matching_resources(quota.spec_hard)
            used = {**dict.fromkeys(names, ZERO), **used}
            records = transaction.list_objects(kind.resource_key, namespace)
            if kind.qualified_name in SPECIAL_EVALUATORS:
                for usage in self._usages_in_scope(quota, evaluator, records):
                    used = add(used, select(usage, names))
            elif not quota.requirements:
                used = add(used, dict.fromkeys(names, count_of(len(records))))
        return used

    def _counted_kinds(self, quota: StoredQuota) -> Iterator[Kind]:
        """Yield the served kinds whose objects a quota limits, each in one version."""
        found = set()
        for kind in self._registry.kinds():
            name = kind.qualified_name
            if name in found or not is_counted(kind):
                continue
            if evaluator_of(name).matching_resources(quota.spec_hard):
                found.add(name)
                yield kind

    def _usages_in_scope(
        self, quota: StoredQuota, evaluator: Evaluator, records: Sequence[StoredObject]
    ) -> Iterator[Amounts]:
        for record in records:
            known = self._usages.get(record.key)
            if known is not None and known[0] == record.version and not quota.requirements:
                yield known[1]
                continue
            obj = record.decode()
            usage = evaluator.usage(obj)
            deadline = deletion_deadline(obj) if record.is_terminating else None
            if deadline is None:
                self._usages[record.key] = (record.version, usage)
            elif self._clock.now() > deadline:
                usage = select(usage, evaluator.names[:1])
            else:
                self._note_deadline(record.key.namespace, deadline)
            if quota.is_in_scope(evaluator, obj):
                yield usage


def _may_change_usage(change: ObjectChange) -> bool:
    """Return whether the usage may differ from what admission has computed."""
    resource, before, after = change.after.key.resource, change.before, change.after
    if change.is_deleted:
        return True
    if resource == RESOURCE_QUOTAS_RESOURCE_KEY:
        return before is None or before.decode().get("spec") != after.decode().get("spec")
    if before is None:
        return False
    if resource == PODS_RESOURCE_KEY:
        return _has_ended(after) and not _has_ended(before)
    return resource in _RECOUNTED_ON_UPDATE


def _has_ended(pod: StoredObject) -> bool:
    return pod.indexed_values[1] in FINISHED_POD_PHASES
