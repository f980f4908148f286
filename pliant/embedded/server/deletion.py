"""The delete verbs: options and preconditions, one object or a whole collection."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from pliant.embedded.schema import Problem, Reason
from pliant.embedded.server.answers import body_in, json_reply, list_chunks, success
from pliant.embedded.server.bodies import read_body
from pliant.embedded.server.calls import Call
from pliant.embedded.server.lifecycle import DeleteOptions, Deletion, delete
from pliant.embedded.server.reads import Selection
from pliant.embedded.server.refusals import absent, forbidden, outdated, senseless, unfit_options
from pliant.embedded.storage.records import Record
from pliant.embedded.storage.store import Store, Transaction
from pliant.kube.transport import Reply
from pliant.runtime.clock import Clock

IMMORTAL = frozenset({"default", "kube-system", "kube-public"})

_ANSWERED_WITH_THE_OBJECT = frozenset({"/pods", "/services", "/serviceaccounts", "/namespaces"})
_POLICIES = frozenset({"", "Background", "Foreground", "Orphan"})


async def delete_one(store: Store, call: Call, clock: Clock) -> Reply:
    """Delete an object, at once or as soon as nothing holds it."""
    options = read_options(call, _stated(call))

    def decide(transaction: Transaction) -> Deletion:
        current = transaction.get(call.key)
        if current is None:
            raise absent(call.kind, call.name)
        require(call, current, options)
        return delete(transaction, current, options, clock.now())

    last, is_gone = await store.write(decide, dry_run=options.is_dry_run)
    if is_gone and call.kind.key not in _ANSWERED_WITH_THE_OBJECT:
        return json_reply(success(call.kind, call.name, last.uid))
    return Reply(status=200, body=body_in(call.kind, last))


async def delete_collection(store: Store, call: Call, clock: Clock) -> Reply:
    """Delete every object selected; the answer lists them."""
    options, selection = read_options(call, _stated(call)), Selection.of(call)
    wanted = [r for r in store.visible.listing(call.kind.key, call.namespace) if selection.admits(r)]

    def decide(transaction: Transaction) -> list[Record]:
        deleted = []
        for seen in wanted:
            current = transaction.get(seen.key)
            if current is not None and current.uid == seen.uid and current.key.name not in _protected(call):
                deleted.append(delete(transaction, current, options, clock.now()).record)
        return deleted

    deleted = await store.write(decide, dry_run=options.is_dry_run)
    metadata = {"resourceVersion": str(store.visible.version)}
    return Reply(status=200, body=b"".join(list_chunks(call.kind, deleted, metadata)))


def read_options(call: Call, stated: Mapping[str, Any]) -> DeleteOptions:
    """DeleteOptions as stated in a body, or else in the query."""
    preconditions = stated.get("preconditions") or {}
    grace = stated.get("gracePeriodSeconds")
    if grace is None:
        grace = call.number("gracePeriodSeconds")
    propagation = stated.get("propagationPolicy") or call.text("propagationPolicy")
    if not propagation and (stated.get("orphanDependents") or call.flag("orphanDependents")):
        propagation = "Orphan"
    if propagation not in _POLICIES:
        why = 'supported values: "Background", "Foreground", "Orphan"'
        problem = Problem.of("propagationPolicy", Reason.UNSUPPORTED, propagation, why)
        raise unfit_options("DELETE", problem)
    try:
        return DeleteOptions(
            grace=None if grace is None else max(int(grace), 0),
            propagation=propagation,
            uid=str(preconditions.get("uid") or ""),
            version=str(preconditions.get("resourceVersion") or ""),
            is_dry_run=_is_dry_run(call, stated),
        )
    except (TypeError, ValueError, msgspec.ValidationError):
        raise senseless(f"gracePeriodSeconds: Invalid value: {grace!r}: must be a whole number") from None


def require(call: Call, current: Record, options: DeleteOptions) -> None:
    """Refuse a deletion of what may not go, or is not what was meant."""
    if call.name in _protected(call):
        raise forbidden(call.kind, call.name, "this namespace may not be deleted")
    if options.uid and options.uid != current.uid:
        why = f"the UID in the precondition ({options.uid}) does not match the UID in record ({current.uid}). "
        raise outdated(call.kind, call.name, why + "The object might have been deleted and then recreated")
    if options.version and options.version != str(current.version):
        why = f"the ResourceVersion in the precondition ({options.version}) does not match the ResourceVersion "
        why += f"in record ({current.version}). The object might have been modified"
        raise outdated(call.kind, call.name, why)


def _stated(call: Call) -> dict[str, Any]:
    return read_body(call.request) if call.request.body else {}


def _is_dry_run(call: Call, stated: Mapping[str, Any]) -> bool:
    wanted = stated.get("dryRun") or []
    if wanted not in ([], ["All"]):
        problem = Problem.of("dryRun", Reason.UNSUPPORTED, wanted, 'supported values: "All"')
        raise unfit_options("DELETE", problem)
    return bool(wanted) or call.is_dry_run


def _protected(call: Call) -> frozenset[str]:
    return IMMORTAL if call.kind.key == "/namespaces" else frozenset()
