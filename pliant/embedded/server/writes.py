"""Create, update and patch: read strictly, decided atomically, kept only when sound."""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable

from pliant.embedded.catalog.crds import established
from pliant.embedded.catalog.kinds import Kind
from pliant.embedded.schema import Problem, Reason
from pliant.embedded.server.admission import CRDS, Admission
from pliant.embedded.server.answers import body_in, warnings
from pliant.embedded.server.apply import Application, follow, is_apply
from pliant.embedded.server.bodies import read_body
from pliant.embedded.server.calls import Call
from pliant.embedded.server.lifecycle import NAMESPACES, PODS, keep, timestamp
from pliant.embedded.server.patches import apply_patch, read_patch
from pliant.embedded.server.priorities import settle_priority
from pliant.embedded.server.refusals import (
    absent,
    forbidden,
    outdated,
    senseless,
    taken,
    unfit,
    unfit_options,
    unknown_fields,
)
from pliant.embedded.storage.records import Key, Object, Record
from pliant.embedded.storage.store import Store, Transaction
from pliant.kube.transport import Reply
from pliant.runtime.clock import Clock

_SUFFIX = "bcdfghjklmnpqrstvwxz2456789"
_VALIDATIONS = ("Strict", "Warn", "Ignore")
_SERVER_OWNED = ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation")
_NEVER_KEPT = ("selfLink",)
_NEVER_EMPTY = ("labels", "annotations", "finalizers", "ownerReferences")

Change = Callable[[Object], Object]
"""From the present state of an object, which it leaves alone, to the state wanted."""


class Writer:
    """Turns write calls into stored objects."""

    def __init__(self, store: Store, admission: Admission, clock: Clock, chance: random.Random) -> None:
        self._store = store
        self._admission = admission
        self._clock = clock
        self._chance = chance

    async def create(self, call: Call) -> Reply:
        """Keep a new object."""
        obj = read_body(call.request)
        warned = self._check_shape(call, obj)
        dry_run = call.is_dry_run

        def decide(transaction: Transaction) -> Record:
            return self.add(transaction, call.kind, call.namespace, obj, assign=not dry_run)

        record = await self._store.write(decide, dry_run=dry_run)
        return Reply(status=201, body=body_in(call.kind, record), headers=warnings(warned))

    async def update(self, call: Call) -> Reply:
        """Put a whole object in place of the one there."""
        obj = read_body(call.request)
        warned = self._check_shape(call, obj)
        record = await self.change(call, lambda old: obj, unconditional=not call.kind.is_custom)
        return Reply(status=200, body=body_in(call.kind, record), headers=warnings(warned))

    async def patch(self, call: Call) -> Reply:
        """Change parts of an object; decided on its newest state, so there is no race to retry."""
        if is_apply(call):
            return await self._apply(call)
        media, patch = read_patch(call)
        warned: list[str] = []

        def patched(old: Object) -> Object:
            new = apply_patch(media, old, patch)
            warned[:] = self._check_shape(call, new)
            return new

        record = await self.change(call, patched, unconditional=True)
        return Reply(status=200, body=body_in(call.kind, record), headers=warnings(warned))

    async def change(self, call: Call, wanted: Change, *, unconditional: bool) -> Record:
        """Keep a changed state of the object a call names."""

        def decide(transaction: Transaction) -> Record:
            current = transaction.get(call.key)
            if current is None:
                raise absent(call.kind, call.name)
            old = call.kind.shown(current.decode())
            new = wanted(old)
            _require_current(call, old, new, unconditional=unconditional)
            new = follow(call, old, _allowed(call, old, new), self._clock.now())
            return self.replace(transaction, call.kind, current, new)

        return await self._store.write(decide, dry_run=call.is_dry_run)

    async def _apply(self, call: Call) -> Reply:
        """Keep what a manager wants of an object, which need not be there yet."""
        asked, dry_run = Application.read(call, self._clock.now()), call.is_dry_run
        warned = self._check_shape(call, asked.wanted)

        def decide(transaction: Transaction) -> tuple[int, Record]:
            current = transaction.get(call.key)
            if current is None and call.subresource:
                raise absent(call.kind, call.name)
            if current is None:
                fresh = asked.created()
                return 201, self.add(transaction, call.kind, call.namespace, fresh, assign=not dry_run)
            old = call.kind.shown(current.decode())
            new, managers = asked.onto(old)
            _require_current(call, old, new, unconditional=True)
            new = _allowed(call, old, new)
            new["metadata"] = {**new["metadata"], "managedFields": managers}
            return 200, self.replace(transaction, call.kind, current, new)

        status, record = await self._store.write(decide, dry_run=dry_run)
        return Reply(status=status, body=body_in(call.kind, record), headers=warnings(warned))

    def add(
        self, transaction: Transaction, kind: Kind, namespace: str, obj: Object, *, assign: bool = True
    ) -> Record:
        """Keep a new object, together with what always comes with it."""
        metadata = obj.setdefault("metadata", {})
        if metadata.get("resourceVersion"):
            raise senseless("resourceVersion should not be set on objects to be created")
        _require_namespace(transaction, kind, namespace, metadata)
        self._name(transaction, kind, namespace, metadata)
        for field in (*_SERVER_OWNED, "resourceVersion"):
            metadata.pop(field, None)
        metadata["uid"] = str(uuid.UUID(int=self._chance.getrandbits(128), version=4))
        metadata["creationTimestamp"] = timestamp(self._clock.now())
        _tidy(metadata)
        if kind.has_generation:
            metadata["generation"] = 1
        if kind.has_status:
            obj.pop("status", None)
        if kind.key == PODS:
            settle_priority(transaction, kind, obj)
        self._admit(kind, obj, None)
        if assign:
            self._admission.assign(kind, obj)
        if transaction.get(Key(kind.key, namespace, metadata["name"])) is not None:
            raise taken(kind, metadata["name"])
        record = transaction.put(kind.key, kind.kept(obj))
        if kind.key == NAMESPACES:
            self._add_default_account(transaction, metadata["name"])
        return record

    def replace(self, transaction: Transaction, kind: Kind, current: Record, obj: Object) -> Record:
        """Keep a new state of an object, if it is sound and really new."""
        old = current.decode()
        self._admit(kind, obj, old)
        return keep(transaction, kind, current, old, kind.kept(obj))

    def _admit(self, kind: Kind, obj: Object, old: Object | None) -> None:
        problems = self._admission.admit(kind, obj, old)
        if problems:
            raise unfit(kind, obj["metadata"].get("name") or "", problems)
        if kind.key == CRDS:
            obj["status"] = established(obj, self._clock.now())

    def _name(self, transaction: Transaction, kind: Kind, namespace: str, metadata: Object) -> None:
        if kind.namespaced:
            metadata["namespace"] = namespace
        prefix = metadata.get("generateName")
        if not metadata.get("name") and prefix and isinstance(prefix, str):
            drawn = prefix[:58] + "".join(self._chance.choices(_SUFFIX, k=5))
            while transaction.get(Key(kind.key, namespace, drawn)) is not None:
                drawn = prefix[:58] + "".join(self._chance.choices(_SUFFIX, k=5))
            metadata["name"] = drawn
        if not metadata.get("name"):
            why = f"{Reason.REQUIRED.words}: name or generateName is required"
            raise unfit(kind, "", [Problem("metadata.name", Reason.REQUIRED.cause, why)])

    def _add_default_account(self, transaction: Transaction, namespace: str) -> None:
        metadata = {
            "name": "default",
            "namespace": namespace,
            "uid": str(uuid.UUID(int=self._chance.getrandbits(128), version=4)),
            "creationTimestamp": timestamp(self._clock.now()),
        }
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}
        transaction.put("/serviceaccounts", account)

    def _check_shape(self, call: Call, obj: Object) -> list[str]:
        """Refuse what is not an object of the kind; cut unknown fields and say which, as the client wished."""
        kind = call.kind
        _require_kind(kind, obj)
        metadata = obj.setdefault("metadata", {})
        if not isinstance(metadata, dict):
            raise senseless("metadata must be an object")
        metadata.pop("managedFields", None)
        if call.namespace and metadata.get("namespace") not in (None, "", call.namespace):
            why = "the namespace of the provided object does not match the namespace sent on the request"
            raise senseless(why)
        if call.name and metadata.setdefault("name", call.name) != call.name:
            why = f"the name of the object ({metadata['name']}) does not match the name on the URL ({call.name})"
            raise senseless(why)
        wish = call.text("fieldValidation") or "Warn"
        if wish not in _VALIDATIONS:
            why = 'supported values: "", "Ignore", "Strict", "Warn"'
            problem = Problem.of("fieldValidation", Reason.UNSUPPORTED, wish, why)
            raise unfit_options(call.request.method, problem)
        unknown = kind.schema.prune(obj) if kind.schema is not None else []
        if unknown and wish == "Strict":
            raise unknown_fields(kind, unknown)
        return [f'unknown field "{field}"' for field in unknown] if wish == "Warn" else []


def _require_kind(kind: Kind, obj: Object) -> None:
    if not kind.is_custom:  # of what is built in, the path says enough
        obj["kind"] = obj.get("kind") or kind.kind
        obj["apiVersion"] = obj.get("apiVersion") or kind.api_version
    said, version = obj.get("kind"), obj.get("apiVersion")
    if not said:
        raise senseless(f"Object 'Kind' is missing in the body: expected {kind.kind}")
    if said != kind.kind or version != kind.api_version:
        raise senseless(
            f"the object provided is {version or 'without apiVersion'}, Kind={said}, "
            f"but the request is for {kind.api_version}, Kind={kind.kind}"
        )


def _require_namespace(transaction: Transaction, kind: Kind, namespace: str, metadata: Object) -> None:
    if not kind.namespaced:
        return
    home = transaction.get(Key(NAMESPACES, "", namespace))
    if home is None:
        raise absent(_NAMESPACE, namespace)
    if home.leaving:
        why = f"unable to create new content in namespace {namespace} because it is being terminated"
        error = forbidden(kind, metadata.get("name") or "", why)
        cause = {"reason": "NamespaceTerminating", "message": f"namespace {namespace} is being terminated"}
        error.details["causes"] = [{**cause, "field": "metadata.namespace"}]
        raise error


_NAMESPACE = Kind(
    group="",
    version="v1",
    plural="namespaces",
    singular="namespace",
    kind="Namespace",
    namespaced=False,
    list_kind="NamespaceList",
)


def _require_current(call: Call, old: Object, new: Object, *, unconditional: bool) -> None:
    stated, present = new["metadata"].get("resourceVersion"), old["metadata"]["resourceVersion"]
    if not stated and not unconditional:
        missing = Problem.of("metadata.resourceVersion", Reason.INVALID, 0, "must be specified for an update")
        raise unfit(call.kind, call.name, [missing])
    if stated and stated != present:
        raise outdated(call.kind, call.name)
    uid = new["metadata"].get("uid")
    if uid and uid != old["metadata"]["uid"] and call.request.method == "PATCH":
        raise unfit(call.kind, call.name, [Problem.of("metadata.uid", Reason.INVALID, uid, "field is immutable")])
    if uid and uid != old["metadata"]["uid"]:
        why = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {old['metadata']['uid']}"
        raise outdated(call.kind, call.name, why)


def _allowed(call: Call, old: Object, new: Object) -> Object:
    """The part of a change that this endpoint lets through."""
    if call.subresource == "status":
        kept = {**old}
        kept.pop("status", None)
        return {**kept, "status": new["status"]} if "status" in new else kept
    if call.kind.has_status:
        new.pop("status", None)
        if "status" in old:
            new["status"] = old["status"]
    metadata = new["metadata"]
    for field in (*_SERVER_OWNED, "managedFields"):
        metadata.pop(field, None)
        if field in old["metadata"]:
            metadata[field] = old["metadata"][field]
    _tidy(metadata)
    metadata["name"] = old["metadata"]["name"]
    if "namespace" in old["metadata"]:
        metadata["namespace"] = old["metadata"]["namespace"]
    return new


def _tidy(metadata: Object) -> None:
    """Leave out what the server does not keep, and what says nothing."""
    for field in _NEVER_KEPT:
        metadata.pop(field, None)
    for field in _NEVER_EMPTY:
        if not metadata.get(field, True):
            del metadata[field]
