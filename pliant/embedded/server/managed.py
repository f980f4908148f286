"""Who manages which field of an object: read from `managedFields`, followed through writes, and kept there.

Objects get `managedFields` with their first server-side apply; what was there before then belongs to
`before-first-apply`. Writes of other kinds are followed from then on, so that plain objects cost nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from pliant.embedded.catalog.kinds import Kind
from pliant.embedded.server import fieldsets
from pliant.embedded.server.fieldsets import Path, Removal, Shape
from pliant.embedded.storage.records import Object
from pliant.errors import Conflict
from pliant.schemas import definition

APPLY, UPDATE = "Apply", "Update"
_NOBODY_S = frozenset(
    {"name", "namespace", "generateName", "uid", "resourceVersion", "generation", "creationTimestamp"}
    | {"deletionTimestamp", "deletionGracePeriodSeconds", "managedFields", "selfLink"}
)
"""Members of metadata that the server alone writes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Manager:
    """Somebody who writes, and how."""

    name: str
    operation: str
    subresource: str = ""
    version: str = ""
    """The apiVersion in which it writes."""

    @property
    def identity(self) -> tuple[str, str, str]:
        """What tells managers apart."""
        return self.name, self.operation, self.subresource


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """The fields of one manager, and when they last changed."""

    manager: Manager
    time: str
    paths: frozenset[Path]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """What a write can reach: the shape of the kind, and the part that the endpoint lets through."""

    shape: Shape
    is_status: bool = False
    has_status: bool = False
    keeps_empty: bool = True
    """Whether what is empty stays; built-in kinds leave it out, and its owner owns it all the same."""

    @classmethod
    def of(cls, kind: Kind, subresource: str) -> Scope:
        """The scope of an endpoint."""
        return cls(
            shape=_shape(kind),
            is_status=subresource == "status",
            has_status=kind.has_status,
            keeps_empty=kind.is_custom,
        )

    def leaves(self, obj: Object) -> dict[Path, Any]:
        """Every field within reach that anybody may manage."""
        metadata = {name: value for name, value in obj.get("metadata", {}).items() if name not in _NOBODY_S}
        rest = {name: value for name, value in obj.items() if name not in ("apiVersion", "kind", "metadata")}
        if self.is_status:
            rest = {name: value for name, value in rest.items() if name == "status"}
        elif self.has_status:
            rest.pop("status", None)
        reached = {**({"metadata": metadata} if metadata and not self.is_status else {}), **rest}
        return dict(fieldsets.leaves(reached, self.shape)) if reached else {}


def applied(
    live: Object, wanted: Object, scope: Scope, entry: Entry, *, force: bool
) -> tuple[Object, list[Entry]]:
    """A live object with an applied one merged in, and who manages what then; `Conflict` unless forced."""
    entries = _entries(live, scope)
    before = next((each for each in entries if each.manager.identity == entry.manager.identity), None)
    others = [each for each in entries if each is not before]
    result = fieldsets.merged(live, wanted, scope.shape)
    changed = _changed(scope.leaves(live), scope.leaves(result))
    lost = [(each, sorted(each.paths & changed, key=_rank)) for each in others if each.paths & changed]
    if lost and not force:
        raise _conflict(sorted(lost, key=lambda each: _named(each[0])))
    others = [replace(each, paths=each.paths - changed) for each in others]
    stored = result
    if before is not None:
        removal = _removal(before.paths - entry.paths, others)
        result = removal.applied(result, scope.shape)
        stored = result if scope.keeps_empty else replace(removal, owned=set()).applied(stored, scope.shape)
    if before is not None and before.paths == entry.paths and stored == live:
        return stored, entries
    return stored, _tidied([*others, entry], scope.leaves(live), scope.leaves(result))


def followed(old: Object, new: Object, scope: Scope, entry: Entry) -> list[Entry]:
    """Who manages what after a write that is no apply; the writer owns what it changed."""
    entries = _entries(old, scope)
    was, becomes = scope.leaves(old), scope.leaves(new)
    changed = _changed(was, becomes)
    if not changed and not (was.keys() - becomes.keys()):
        return entries
    others = [each for each in entries if each.manager.identity != entry.manager.identity]
    own = frozenset(changed).union(*(each.paths for each in entries if each not in others))
    others = [replace(each, paths=each.paths - changed) for each in others]
    return _tidied([*others, replace(entry, paths=own)], was, becomes)


def written(entries: list[Entry]) -> list[dict[str, Any]]:
    """Entries as `managedFields` has them."""
    return [
        {
            "manager": each.manager.name,
            "operation": each.manager.operation,
            "apiVersion": each.manager.version,
            "time": each.time,
            "fieldsType": "FieldsV1",
            "fieldsV1": fieldsets.encoded(each.paths),
            **({"subresource": each.manager.subresource} if each.manager.subresource else {}),
        }
        for each in entries
    ]


def _entries(obj: Object, scope: Scope) -> list[Entry]:
    kept = obj["metadata"].get("managedFields")
    if not kept:
        first = Manager(name="before-first-apply", operation=UPDATE, version=obj["apiVersion"])
        time = obj["metadata"].get("creationTimestamp", "")
        return [Entry(manager=first, time=time, paths=frozenset(scope.leaves(obj)))]
    return [_entry(each) for each in kept]


def _entry(kept: Mapping[str, Any]) -> Entry:
    manager = Manager(
        name=kept["manager"],
        operation=kept["operation"],
        subresource=kept.get("subresource", ""),
        version=kept["apiVersion"],
    )
    paths = frozenset(fieldsets.decoded(kept.get("fieldsV1") or {}))
    return Entry(manager=manager, time=kept.get("time", ""), paths=paths)


def _changed(was: Mapping[Path, Any], becomes: Mapping[Path, Any]) -> set[Path]:
    """Fields that are new or other than before, and what holds new ones if there was no such thing."""
    new = {path for path, value in becomes.items() if path not in was or was[path] != value}
    return new | (_places(becomes) - _places(was))


def _removal(given_up: frozenset[Path], others: list[Entry]) -> Removal:
    """Of what a manager no longer applies, that goes which nobody else has a part in."""
    owned = {path for each in others for path in each.paths}
    return Removal(given_up - _places(owned), owned)


def _places(paths: Iterable[Path]) -> set[Path]:
    """Paths, and those of everything that holds them, but for metadata, which is always there."""
    return {path[:length] for path in paths for length in range(1, len(path) + 1)} - {("f:metadata",)}


def _tidied(entries: list[Entry], was: Iterable[Path], becomes: Iterable[Path]) -> list[Entry]:
    """Entries without the fields that have just gone, and without managers of nothing."""
    gone = _places(was) - _places(becomes)
    left = [replace(each, paths=each.paths - gone) for each in entries]
    return [each for each in left if each.paths]


def _rank(path: Path) -> list[tuple[bool, str]]:
    """Sorts paths as the real server lists them: at each level what ends there comes first."""
    return [(place < len(path) - 1, step) for place, step in enumerate(path)]


def _conflict(lost: list[tuple[Entry, list[Path]]]) -> Conflict:
    causes = [
        {
            "reason": "FieldManagerConflict",
            "message": f"conflict with {_named(entry)}",
            "field": fieldsets.printed(path),
        }
        for entry, paths in lost
        for path in paths
    ]
    if len(causes) == 1:
        message = f"Apply failed with 1 conflict: {causes[0]['message']}: {causes[0]['field']}"
    else:
        said = (
            f"conflicts with {_named(entry)}:\n" + "\n".join(f"- {fieldsets.printed(path)}" for path in paths)
            for entry, paths in lost
        )
        message = f"Apply failed with {len(causes)} conflicts: " + "\n".join(said)
    return Conflict(409, "Conflict", message, details={"causes": causes})


def _named(entry: Entry) -> str:
    manager = entry.manager
    name = f'"{manager.name}"' + (f' with subresource "{manager.subresource}"' if manager.subresource else "")
    return name if manager.operation == APPLY else f"{name} using {manager.version}"


def _shape(kind: Kind) -> Shape:
    if kind.is_custom:
        known = kind.schema.openapi if kind.schema is not None else {}
        return {**known, "properties": {**(known.get("properties") or {}), "metadata": _published("ObjectMeta")}}
    return {} if kind.form is not None else _published(kind.kind)


@cache
def _published(name: str) -> Shape:
    """What Kubernetes publishes of a kind; the server's own rules let some lists repeat that are merged by key."""
    try:
        return definition(name)
    except KeyError:
        return {}
