"""Creates the default roles, and keeps the rules of aggregated cluster roles up to date."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from pliant.embedded.apiserver.admission.disruption_budgets import label_selector_matches
from pliant.embedded.apiserver.authorization.default_roles import (
    AUTO_UPDATE_ANNOTATION,
    default_binding_manifests,
    default_role_manifests,
)
from pliant.embedded.apiserver.authorization.rbac_index import CLUSTER_ROLE_BINDINGS_KEY, CLUSTER_ROLES_KEY
from pliant.embedded.apiserver.authorization.rules import parse_rules, uncovered_rules
from pliant.embedded.storage.store import Store, Transaction
from pliant.embedded.storage.stored_objects import Object, ObjectChange, ObjectKey, StoredObject
from pliant.errors import ServerError

_RETRY_SECONDS = 1.0
AddObject = Callable[[Transaction, str, dict[str, Any]], object]
"""Adds an object of the kind with this plural."""


def reconcile_default_roles(transaction: Transaction, add_object: AddObject) -> None:
    """Create missing default roles and bindings; add the rules and subjects that existing ones lack."""
    for manifest in default_role_manifests():
        current = _current_object(transaction, CLUSTER_ROLES_KEY, manifest)
        if current is None:
            add_object(transaction, "clusterroles", manifest)
        elif _is_repairable(current) and "aggregationRule" not in manifest:
            missing = uncovered_rules(parse_rules(current.get("rules")), parse_rules(manifest["rules"]))
            if missing:
                rules = [*(current.get("rules") or ()), *(rule.to_raw() for rule in missing)]
                transaction.put(CLUSTER_ROLES_KEY, {**current, "rules": rules})
    for manifest in default_binding_manifests():
        current = _current_object(transaction, CLUSTER_ROLE_BINDINGS_KEY, manifest)
        if current is None:
            add_object(transaction, "clusterrolebindings", manifest)
        elif _is_repairable(current):
            subjects = current.get("subjects") or []
            lacking = [subject for subject in manifest["subjects"] if subject not in subjects]
            if lacking:
                transaction.put(CLUSTER_ROLE_BINDINGS_KEY, {**current, "subjects": [*subjects, *lacking]})


def _current_object(transaction: Transaction, resource: str, manifest: dict[str, Any]) -> Object | None:
    record = transaction.get(ObjectKey(resource, "", manifest["metadata"]["name"]))
    return record.decode() if record is not None else None


def _is_repairable(obj: Object) -> bool:
    return (obj["metadata"].get("annotations") or {}).get(AUTO_UPDATE_ANNOTATION) == "true"


class ClusterRoleAggregator:
    """Sets the rules of a cluster role with an aggregationRule to those of all roles that its selectors match."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._wake = asyncio.Event()
        self._selectors: dict[str, list[dict[str, Any]]] = {}
        """The selectors of each aggregated role, by name."""

    async def start(self) -> None:
        """Update all aggregated roles, and follow the store from now on."""
        for record in self._store.committed.list_objects(CLUSTER_ROLES_KEY):
            self._read_selectors(record)
        await self._store.run_transaction(self._update_roles)
        self._store.add_listener(self._on_commit)

    async def run(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            try:
                await self._store.run_transaction(self._update_roles)
            except ServerError:
                # The store cannot write, for example because the disk is full.
                self._wake.set()
                await asyncio.sleep(_RETRY_SECONDS)

    def _on_commit(self, changes: Sequence[ObjectChange]) -> None:
        for change in changes:
            record = change.after
            if record.key.resource != CLUSTER_ROLES_KEY:
                continue
            was_aggregated = self._selectors.pop(record.key.name, None) is not None
            is_aggregated = not change.is_deleted and self._read_selectors(record)
            states = [record] if change.before is None else [change.before, record]
            if was_aggregated or is_aggregated or any(self._is_selected(state) for state in states):
                self._wake.set()

    def _read_selectors(self, record: StoredObject) -> bool:
        """Remember the selectors of a role; return whether it has any."""
        if b'"aggregationRule"' not in record.body:
            return False  # saves decoding most roles
        selectors = (record.decode().get("aggregationRule") or {}).get("clusterRoleSelectors") or []
        if selectors:
            self._selectors[record.key.name] = selectors
        return bool(selectors)

    def _is_selected(self, record: StoredObject) -> bool:
        return any(_is_selected_by(selectors, record) for selectors in self._selectors.values())

    def _update_roles(self, transaction: Transaction) -> None:
        """Update aggregated roles until all have the rules of the roles they select, which may be aggregated, too."""
        names = [record.key.name for record in transaction.committed.list_objects(CLUSTER_ROLES_KEY)]
        found = (transaction.get(ObjectKey(CLUSTER_ROLES_KEY, "", name)) for name in names)
        records = [record for record in found if record is not None]
        roles = {record.key.name: record.decode() for record in records if self._is_selected(record)}
        sources = {
            name: [each.key.name for each in records if each.key.name != name and _is_selected_by(selectors, each)]
            for name, selectors in self._selectors.items()
        }
        aggregated = {record.key.name: record.decode() for record in records if record.key.name in sources}
        roles |= aggregated
        before = {name: role.get("rules") or [] for name, role in aggregated.items()}
        # A chain of aggregated roles is not longer than their number.
        for _ in aggregated:
            for name, role in aggregated.items():
                role["rules"] = _merge_rules(roles[source] for source in sources[name])
        for name, role in aggregated.items():
            if role["rules"] != before[name]:
                transaction.put(CLUSTER_ROLES_KEY, role)


def _is_selected_by(selectors: Iterable[dict[str, Any]], record: StoredObject) -> bool:
    return any(label_selector_matches(selector, record.labels) for selector in selectors)


def _merge_rules(roles: Iterable[Object]) -> list[Any]:
    """Return the rules of all roles, each once."""
    rules = {msgspec.json.encode(rule): rule for role in roles for rule in role.get("rules") or ()}
    return list(rules.values())
