"""The options of the query of a list, watch or deletecollection."""

from __future__ import annotations

from pliant.embedded.apiserver.http import errors
from pliant.embedded.apiserver.http.request_info import RequestInfo
from pliant.embedded.schema import FieldError

_EXACT, _NOT_OLDER = "Exact", "NotOlderThan"
_MATCH = "resourceVersionMatch"
EVENTS_RESOURCE_KEY = "/events"


def validate_list_options(info: RequestInfo) -> None:
    """Raise `Invalid` with all errors of the options; a watch has other rules than a list."""
    is_watch = info.query_bool("watch")
    found = _validate_watch(info) if is_watch else _validate_list(info)
    if found:
        raise errors.invalid_options("GET", *found)


def parse_limit(info: RequestInfo) -> int:
    """Return the size of a page, or 0 for all objects."""
    if info.query_text("resourceVersion") == "0" and info.kind.resource_key != EVENTS_RESOURCE_KEY:
        return 0  # API servers answer from their cache, of which they do not return pages
    if info.query_text("limit").startswith("-") and info.query_text("limit")[1:].isdecimal():
        return 0
    return info.query_int("limit") or 0


def _validate_list(info: RequestInfo) -> list[FieldError]:
    found = []
    match, version = info.query_text(_MATCH), info.query_text("resourceVersion")
    if match:
        if not version:
            found.append(_forbidden(_MATCH, "is forbidden unless resourceVersion is provided"))
        if info.query_text("continue"):
            found.append(_forbidden(_MATCH, "is forbidden when continue is provided"))
        if match not in (_EXACT, _NOT_OLDER):
            found.append(errors.unsupported_value(_MATCH, match, (_EXACT, _NOT_OLDER, "")))
        if match == _EXACT and version == "0":
            found.append(_forbidden(_MATCH, '"exact" is forbidden for resourceVersion "0"'))
    if info.query_text("sendInitialEvents"):
        found.append(_forbidden("sendInitialEvents", "is forbidden for list"))
    return found


def _validate_watch(info: RequestInfo) -> list[FieldError]:
    found = []
    match, initial = info.query_text(_MATCH), info.query_text("sendInitialEvents")
    if initial and match != _NOT_OLDER:
        detail = f"sendInitialEvents requires setting resourceVersionMatch to {_NOT_OLDER}"
        found.append(errors.forbidden_field(_MATCH, detail))
    if match:
        if not initial:
            found.append(_forbidden(_MATCH, "is forbidden for watch unless sendInitialEvents is provided"))
        if match != _NOT_OLDER:
            found.append(errors.unsupported_value(_MATCH, match, (_NOT_OLDER,)))
        if info.query_text("continue"):
            found.append(_forbidden(_MATCH, "is forbidden when continue is provided"))
    return found


def _forbidden(option: str, detail: str) -> FieldError:
    return errors.forbidden_field(option, f"{option} {detail}")
