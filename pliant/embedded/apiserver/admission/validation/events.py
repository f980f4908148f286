"""Validation of events, which are stored as those of core/v1."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pliant.embedded.apiserver.admission.validation.names import validate_name, validate_qualified_name
from pliant.embedded.apiserver.http.errors import invalid_field, required_field
from pliant.embedded.registry.conversions import EVENTS_CONVERSION
from pliant.embedded.schema import FieldError
from pliant.embedded.storage.stored_objects import Object

_MAX_BYTES: Final = {"reportingInstance": 128, "action": 128, "reason": 128, "message": 1024}
_REQUIRED: Final = ("reportingInstance", "action", "reason")
_UNSET_IN_NEW_EVENTS: Final = ("firstTimestamp", "lastTimestamp", "count", "source")
_IMMUTABLE: Final = (
    *("involvedObject", "reason", "message", "source", "firstTimestamp", "lastTimestamp", "count", "type"),
    *("eventTime", "action", "related", "reportingComponent", "reportingInstance"),
)
_NAMESPACES_OF_CLUSTER_EVENTS: Final = ("default", "kube-system")


def validate_event(event: Object, old: Object | None) -> list[FieldError]:
    """Return the errors of an event; those of events.k8s.io/v1 have stricter rules."""
    if event.get("apiVersion") != EVENTS_CONVERSION.api_version:
        return list(_validate_legacy(event, "reportingComponent"))
    event = EVENTS_CONVERSION.to_stored(event)
    errors = list(_validate_legacy(event, "reportingController"))
    if old is None:
        return [*errors, *_validate_new(event), *_validate_series(event)]
    if event.get("series") != old.get("series"):
        errors += _validate_series(event)
    return [*errors, *_validate_update(event, old)]


def _validate_legacy(event: Object, controller_field: str) -> Iterator[FieldError]:
    namespace, about = event["metadata"].get("namespace"), (event.get("involvedObject") or {}).get("namespace") or ""
    has_time = bool(event.get("eventTime"))
    allowed = (namespace,) if has_time else (about,)  # any namespace, if the event has the new form
    if namespace not in (allowed if about else _NAMESPACES_OF_CLUSTER_EVENTS[: 1 + has_time]):
        yield invalid_field("involvedObject.namespace", about, "does not match event.namespace")
    if not has_time:
        return
    controller = event.get("reportingComponent") or ""
    if not controller:
        yield required_field(controller_field)
    yield from validate_qualified_name(controller_field, controller)
    for field in _REQUIRED:
        if not event.get(field):
            yield required_field(field)
    for field, limit in _MAX_BYTES.items():
        if len((event.get(field) or "").encode()) > limit:
            yield invalid_field(field, "", f"can have at most {limit} characters")


def _validate_new(event: Object) -> Iterator[FieldError]:
    metadata = event["metadata"]
    if metadata["name"]:
        yield from validate_name("metadata.name", metadata["name"])
    if metadata.get("generateName"):
        yield from validate_name("metadata.generateName", metadata["generateName"].removesuffix("-"))
    if not event.get("eventTime"):
        yield required_field("eventTime")
    if event.get("type") not in ("Normal", "Warning"):
        yield invalid_field("type", "", f"has invalid value: {event.get('type') or ''}")
    for field in _UNSET_IN_NEW_EVENTS:
        if event.get(field):
            yield invalid_field(field, "", "needs to be unset")


def _validate_series(event: Object) -> Iterator[FieldError]:
    series = event.get("series")
    if series is None:
        return
    if (series.get("count") or 0) < 2:
        yield invalid_field("series.count", "", "should be at least 2")
    if not series.get("lastObservedTime"):
        yield required_field("series.lastObservedTime")


def _validate_update(event: Object, old: Object) -> Iterator[FieldError]:
    for field in _IMMUTABLE:
        # Clients in Go leave out empty values that others send.
        is_changed = (event.get(field) or None) != (old.get(field) or None)
        if is_changed or (field == "related" and ("related" in event) != ("related" in old)):
            name = "reportingController" if field == "reportingComponent" else field
            yield invalid_field(name, event.get(field), "field is immutable")
