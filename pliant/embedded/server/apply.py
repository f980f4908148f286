"""Server-side apply: a manager states all it wants of an object, and becomes the owner of just that."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from pliant.embedded.schema import Problem, Reason, copied
from pliant.embedded.server.bodies import read_body
from pliant.embedded.server.calls import Call
from pliant.embedded.server.lifecycle import timestamp
from pliant.embedded.server.managed import APPLY, UPDATE, Entry, Manager, Scope, applied, followed, written
from pliant.embedded.server.refusals import senseless, unfit_options
from pliant.embedded.storage.records import Object
from pliant.kube.transport import APPLY_PATCH

_LONGEST_NAME = 128


def is_apply(call: Call) -> bool:
    """Whether a patch is the whole of what somebody wants."""
    return call.request.content_type.partition(";")[0].strip() == APPLY_PATCH


@dataclass(frozen=True, slots=True, kw_only=True)
class Application:
    """What somebody wants of an object."""

    wanted: Object
    manager: Manager
    scope: Scope
    now: datetime
    force: bool

    @classmethod
    def read(cls, call: Call, now: datetime) -> Application:
        """The application a call carries; refused without a manager's name."""
        name = call.text("fieldManager")
        if not name:
            why = f"{Reason.REQUIRED.words}: is required for apply patch"
            raise unfit_options("PATCH", Problem("fieldManager", Reason.REQUIRED.cause, why))
        if len(name) > _LONGEST_NAME or not name.isprintable():
            why = f"must be at most {_LONGEST_NAME} printable characters"
            raise unfit_options("PATCH", Problem.of("fieldManager", Reason.INVALID, name, why))
        wanted = read_body(call.request)
        if isinstance(wanted.get("metadata"), dict) and wanted["metadata"].get("managedFields"):
            raise senseless("metadata.managedFields must be nil")
        manager = _manager(call, name, APPLY)
        scope = Scope.of(call.kind, call.subresource)
        return cls(wanted=wanted, manager=manager, scope=scope, now=now, force=call.flag("force"))

    def created(self) -> Object:
        """The object when there was none."""
        obj: Object = copied(self.wanted)
        entry = self._entry()
        obj["metadata"] = {**obj["metadata"], **({"managedFields": written([entry])} if entry.paths else {})}
        return obj

    def onto(self, live: Object) -> tuple[Object, list[Object]]:
        """A live object as wanted, and its `managedFields`; `Conflict` where that takes fields from others."""
        result, entries = applied(live, self.wanted, self.scope, self._entry(), force=self.force)
        return result, written(entries)

    def _entry(self) -> Entry:
        paths = frozenset(self.scope.leaves(self.wanted))
        return Entry(manager=self.manager, time=timestamp(self.now), paths=paths)


def follow(call: Call, old: Object, new: Object, now: datetime) -> Object:
    """The new state of an object that has managers, with a note of who changed what; others are left alone."""
    if "managedFields" not in old["metadata"]:
        return new
    scope = Scope.of(call.kind, call.subresource)
    writer = _manager(call, call.text("fieldManager") or "unknown", UPDATE)
    entry = Entry(manager=writer, time=timestamp(now), paths=frozenset())
    entries = written(followed(old, new, scope, entry))
    return {**new, "metadata": {**new["metadata"], "managedFields": entries}}


def _manager(call: Call, name: str, operation: str) -> Manager:
    return Manager(name=name, operation=operation, subresource=call.subresource, version=call.kind.api_version)
