"""The verbs get and list: selectors, pages, and objects, metadata or tables as the format of the response."""

from __future__ import annotations

import base64
from bisect import bisect_right
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import chain
from typing import Any

import msgspec

from pliant.embedded.apiserver.handlers.list_options import EVENTS_RESOURCE_KEY, parse_limit, validate_list_options
from pliant.embedded.apiserver.http import errors
from pliant.embedded.apiserver.http.negotiation import PARTIAL_METADATA, TABLE
from pliant.embedded.apiserver.http.request_info import RequestInfo
from pliant.embedded.apiserver.http.responses import encode_list_chunks, encode_served_object, json_response
from pliant.embedded.apiserver.selectors import FieldSelector, LabelSelector
from pliant.embedded.registry.tables import build_table
from pliant.embedded.storage.object_index import ObjectIndex
from pliant.embedded.storage.stored_objects import INDEXED_FIELDS, StoredObject
from pliant.errors import Gone, ServerError
from pliant.kube.transport.base import Reply, StreamReply


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectFilter:
    """The namespace and the selectors of a list or watch."""

    namespace: str
    is_namespaced: bool
    label_selector: LabelSelector | None
    field_selector: FieldSelector | None
    has_only_indexed_fields: bool

    @classmethod
    def from_request(cls, info: RequestInfo) -> ObjectFilter:
        """Parse the selectors of a query; raise `BadRequest` for invalid or unsupported ones."""
        labels, fields = info.query_text("labelSelector"), info.query_text("fieldSelector")
        field_selector = FieldSelector.parse(fields, info.kind) if fields else None
        if field_selector is not None and info.kind.conversion is not None:
            field_selector = field_selector.with_renamed_fields(info.kind.conversion.stored_field_path)
        indexed = {"metadata.name", "metadata.namespace", *INDEXED_FIELDS.get(info.kind.resource_key, ())}
        return cls(
            namespace=info.namespace,
            is_namespaced=info.kind.namespaced,
            label_selector=LabelSelector.parse(labels) if labels else None,
            field_selector=field_selector,
            has_only_indexed_fields=field_selector is None or all(term[0] in indexed for term in field_selector.terms),
        )

    def matches(self, record: StoredObject) -> bool:
        if self.namespace and record.key.namespace != self.namespace:
            return False
        if self.label_selector is not None and not self.label_selector.matches(record.labels):
            return False
        if self.field_selector is None:
            return True
        if self.has_only_indexed_fields:
            return self.field_selector.matches(record.selectable_fields())
        return self.field_selector.matches_object(record.decode())

    @property
    def names_one_object(self) -> bool:
        """Whether only the object of one key can match."""
        has_name = self.field_selector is not None and self.field_selector.required_value("metadata.name") is not None
        return has_name and bool(self.namespace or not self.is_namespaced)

    @property
    def is_unfiltered(self) -> bool:
        return self.label_selector is None and self.field_selector is None


def get_object(index: ObjectIndex, info: RequestInfo, now: datetime) -> Reply:
    if info.kind.resource_key == EVENTS_RESOURCE_KEY:  # API servers do not read events from their cache
        require_known_list_version(index, info)
    else:
        _require_known_version(index, info.requested_version)
    record = info.require_stored_object(index)
    if info.response_kind == TABLE:
        return json_response(render_table(info, [record], now))
    if info.response_kind == PARTIAL_METADATA:
        return json_response(partial_object_metadata(record))
    return Reply(status=200, body=encode_served_object(info.kind, record))


def list_objects(index: ObjectIndex, info: RequestInfo, now: datetime) -> Reply | StreamReply:
    """Return the selected objects, or a page of them if the request has a limit."""
    object_filter = ObjectFilter.from_request(info)
    validate_list_options(info)
    require_known_list_version(index, info)
    page = _select_page(index, info, object_filter)
    if info.response_kind == TABLE:
        content = render_table(info, page.records, now, str(page.resource_version))
        content["metadata"] = {**content.get("metadata", {}), **page.list_metadata()}
        return json_response(content)
    if info.response_kind == f"{PARTIAL_METADATA}List":
        head = {"kind": f"{PARTIAL_METADATA}List", "apiVersion": "meta.k8s.io/v1"}
        items = [partial_object_metadata(record) for record in page.records]
        return json_response({**head, "metadata": page.list_metadata(), "items": items or None})
    chunks = encode_list_chunks(info.kind, page.records, page.list_metadata())
    first, second = next(chunks), next(chunks, None)
    if second is None:
        return Reply(status=200, body=first)
    return StreamReply(status=200, chunks=_stream_chunks([first, second], chunks))


def render_table(
    info: RequestInfo, records: Sequence[StoredObject], now: datetime, resource_version: str = ""
) -> dict[str, Any]:
    """Return objects as the Table that kubectl prints."""
    include = info.query_text("includeObject") or "Metadata"
    resource_version = resource_version or (str(records[0].version) if records else "")
    objects = [record.decode() for record in records]
    return build_table(info.kind, objects, now, include_object=include, resource_version=resource_version)


@dataclass(frozen=True, slots=True, kw_only=True)
class _ListPage:
    records: Sequence[StoredObject]
    resource_version: int
    has_more: bool
    """Whether objects follow that were not compared with the selectors yet."""
    remaining_count: int
    """How many objects follow, 0 if that is not known."""

    def list_metadata(self) -> dict[str, Any]:
        metadata: dict[str, Any] = {"resourceVersion": str(self.resource_version)}
        if self.has_more:
            position = (self.resource_version, *self.records[-1].key[1:])
            metadata["continue"] = base64.urlsafe_b64encode(msgspec.json.encode(position)).decode()
            if self.remaining_count:
                metadata["remainingItemCount"] = self.remaining_count
        return metadata


def _select_page(index: ObjectIndex, info: RequestInfo, object_filter: ObjectFilter) -> _ListPage:
    limit, token = parse_limit(info), info.query_text("continue")
    version, after = _decode_continue_token(token) if token else (_parse_exact_version(info) or index.version, None)
    resource = info.kind.resource_key
    try:
        if version == index.version:
            records = index.list_objects(resource, info.namespace)
        else:
            records = index.list_objects_at(version, resource, info.namespace)
    except Gone:
        message = "The provided continue parameter is too old to display a consistent list result. "
        message += "You must start a new list without the continue parameter."
        raise Gone(410, "Expired", message) from None
    if after is not None:
        records = records[bisect_right(records, after, key=lambda record: record.key[1:]) :]
    selected = records
    if not object_filter.is_unfiltered:
        selected = [record for record in records if object_filter.matches(record)]
    page = selected[:limit] if limit else selected
    is_full = bool(limit) and len(page) == limit and not (object_filter.names_one_object and after is None)
    return _ListPage(
        records=page,
        resource_version=version,
        has_more=is_full and page[-1] is not records[-1],
        remaining_count=len(records) - len(page) if object_filter.is_unfiltered else 0,
    )


def _parse_exact_version(info: RequestInfo) -> int | None:
    is_exact = info.query_text("resourceVersionMatch") == "Exact"
    return info.requested_version if is_exact else None


def _decode_continue_token(token: str) -> tuple[int, tuple[str, str]]:
    try:
        version, namespace, name = msgspec.json.decode(base64.urlsafe_b64decode(token), type=tuple[int, str, str])
    except (ValueError, msgspec.DecodeError):
        raise errors.bad_request("continue key is not valid") from None
    return version, (namespace, name)


def require_known_list_version(index: ObjectIndex, info: RequestInfo) -> None:
    """Raise an error if the version that a list requests is invalid, or newer than all others."""
    try:
        requested = info.requested_version
    except ServerError as error:
        raise errors.bad_request(f"invalid resource version: {error.message}") from None
    _require_known_version(index, requested)


def _require_known_version(index: ObjectIndex, requested: int | None) -> None:
    if requested is not None and requested > index.version:
        message = f"Too large resource version: {requested}, current: {index.version}"
        details = {"causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]}
        raise ServerError(504, "Timeout", message, details={**details, "retryAfterSeconds": 1})


def partial_object_metadata(record: StoredObject) -> dict[str, Any]:
    return {"kind": PARTIAL_METADATA, "apiVersion": "meta.k8s.io/v1", "metadata": record.decode()["metadata"]}


async def _stream_chunks(first: Sequence[bytes], rest: Iterator[bytes]) -> AsyncIterator[bytes]:
    for chunk in chain(first, rest):
        yield chunk
