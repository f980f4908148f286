"""Get and list: consistent snapshots, selected, paged, as objects or as the tables kubectl prints."""

from __future__ import annotations

import base64
from bisect import bisect_right
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec

from pliant.embedded.catalog.tables import table
from pliant.embedded.schema import Problem, Reason
from pliant.embedded.server.answers import body_in, json_reply, list_chunks
from pliant.embedded.server.calls import Call
from pliant.embedded.server.refusals import absent, senseless, unfit_options
from pliant.embedded.server.selectors import FieldSelector, LabelSelector
from pliant.embedded.storage.records import INDEXED, Record
from pliant.embedded.storage.shelves import Shelves
from pliant.errors import Gone, ServerError
from pliant.kube.transport import Reply, StreamReply

_PARTIAL = "PartialObjectMetadata"
_MATCHES = ("", "Exact", "NotOlderThan")


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which objects of a kind a client wants to see."""

    namespace: str
    labels: LabelSelector | None
    fields: FieldSelector | None
    is_indexed: bool

    @classmethod
    def of(cls, call: Call) -> Selection:
        """The selection a query describes; raises `BadRequest` for what cannot be selected by."""
        labels, fields = call.text("labelSelector"), call.text("fieldSelector")
        by_field = FieldSelector.parse(fields, call.kind) if fields else None
        if by_field is not None and call.kind.form is not None:
            by_field = by_field.renamed(call.kind.form.field)
        known = {"metadata.name", "metadata.namespace", *INDEXED.get(call.kind.key, ())}
        return cls(
            namespace=call.namespace,
            labels=LabelSelector.parse(labels) if labels else None,
            fields=by_field,
            is_indexed=by_field is None or all(field in known for field, _, _ in by_field.terms),
        )

    def admits(self, record: Record) -> bool:
        """Whether an object is wanted."""
        if self.namespace and record.key.namespace != self.namespace:
            return False
        if self.labels is not None and not self.labels.matches(record.labels):
            return False
        if self.fields is None:
            return True
        return (
            self.fields.matches(record.fields())
            if self.is_indexed
            else self.fields.matches_object(record.decode())
        )

    @property
    def is_whole(self) -> bool:
        """Whether nothing but the namespace narrows it."""
        return self.labels is None and self.fields is None


def read(shelves: Shelves, call: Call, now: datetime) -> Reply:
    """One object."""
    _require_reached(shelves, call)
    record = shelves.get(call.key)
    if record is None:
        raise absent(call.kind, call.name)
    if call.form == "Table":
        return json_reply(as_table(call, [record], now))
    if call.form == _PARTIAL:
        return json_reply(_partial(record))
    return Reply(status=200, body=body_in(call.kind, record))


def read_list(shelves: Shelves, call: Call, now: datetime) -> Reply | StreamReply:
    """All objects selected, or one page of them."""
    _require_reached(shelves, call)
    selection = Selection.of(call)
    page = _page(shelves, call, selection)
    if call.form == "Table":
        content = as_table(call, page.records, now, str(page.version))
        content["metadata"] = {**content.get("metadata", {}), **page.metadata()}
        return json_reply(content)
    if call.form == _PARTIAL + "List":
        head = {"kind": _PARTIAL + "List", "apiVersion": "meta.k8s.io/v1", "metadata": page.metadata()}
        return json_reply({**head, "items": [_partial(record) for record in page.records]})
    pieces = list_chunks(call.kind, page.records, page.metadata())
    first = next(pieces)
    rest = next(pieces, None)
    if rest is None:
        return Reply(status=200, body=first)
    return StreamReply(status=200, chunks=_streamed([first, rest], pieces))


def as_table(call: Call, records: Sequence[Record], now: datetime, version: str = "") -> dict[str, Any]:
    """Objects as the rows kubectl prints."""
    include = call.text("includeObject") or "Metadata"
    version = version or (str(records[0].version) if records else "")
    objects = [record.decode() for record in records]
    return table(call.kind, objects, now, include=include, resource_version=version)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Page:
    records: list[Record]
    version: int
    left: int
    counts: bool

    def metadata(self) -> dict[str, Any]:
        metadata: dict[str, Any] = {"resourceVersion": str(self.version)}
        if self.left:
            metadata["continue"] = _token(self.version, self.records[-1])
            if self.counts:
                metadata["remainingItemCount"] = self.left
        return metadata


def _page(shelves: Shelves, call: Call, selection: Selection) -> _Page:
    limit, token = call.number("limit") or 0, call.text("continue")
    version, after = _read_token(token) if token else (_exact_version(call) or shelves.version, None)
    if version == shelves.version:
        records = shelves.listing(call.kind.key, call.namespace)
    else:
        records = _past_listing(shelves, call, version)
    if after is not None:
        records = records[bisect_right(records, after, key=lambda record: record.key[1:]) :]
    if not selection.is_whole:
        records = [record for record in records if selection.admits(record)]
    shown = records[:limit] if limit else records
    return _Page(records=shown, version=version, left=len(records) - len(shown), counts=selection.is_whole)


def _past_listing(shelves: Shelves, call: Call, version: int) -> list[Record]:
    try:
        return shelves.listing_at(version, call.kind.key, call.namespace)
    except Gone:
        why = "The provided continue parameter is too old to display a consistent list result. "
        why += "You must start a new list without the continue parameter."
        raise Gone(410, "Expired", why) from None


def _exact_version(call: Call) -> int | None:
    match = call.text("resourceVersionMatch")
    if match and not call.text("resourceVersion"):
        why = "Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided"
        raise unfit_options("GET", Problem("resourceVersionMatch", Reason.FORBIDDEN.cause, why))
    if match not in _MATCHES:
        why = 'supported values: "Exact", "NotOlderThan", ""'
        raise unfit_options("GET", Problem.of("resourceVersionMatch", Reason.UNSUPPORTED, match, why))
    return call.number("resourceVersion") if match == "Exact" else None


def _token(version: int, last: Record) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode((version, *last.key[1:]))).decode()


def _read_token(token: str) -> tuple[int, tuple[str, str]]:
    try:
        version, namespace, name = msgspec.json.decode(base64.urlsafe_b64decode(token), type=tuple[int, str, str])
    except (ValueError, msgspec.DecodeError):
        raise senseless("continue key is not valid") from None
    return version, (namespace, name)


def _require_reached(shelves: Shelves, call: Call) -> None:
    asked = call.number("resourceVersion")
    if asked is not None and asked > shelves.version:
        message = f"Too large resource version: {asked}, current: {shelves.version}"
        details = {"causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]}
        raise ServerError(504, "Timeout", message, details={**details, "retryAfterSeconds": 1})


def _partial(record: Record) -> dict[str, Any]:
    return {"kind": _PARTIAL, "apiVersion": "meta.k8s.io/v1", "metadata": record.decode()["metadata"]}


async def _streamed(first: Iterable[bytes], rest: Iterable[bytes]) -> AsyncIterator[bytes]:
    for piece in first:
        yield piece
    for piece in rest:
        yield piece
