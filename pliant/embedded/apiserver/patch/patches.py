"""The patch formats of clients: JSON patch, merge patch and strategic merge patch."""

from __future__ import annotations

from typing import Any

from pliant.embedded.apiserver.http.errors import invalid_patch, unsupported_media_type
from pliant.embedded.apiserver.http.request_body import decode_body
from pliant.embedded.apiserver.http.request_info import RequestInfo
from pliant.embedded.apiserver.patch.json_patch import apply_json_patch
from pliant.embedded.apiserver.patch.strategic_merge import apply_strategic_merge
from pliant.embedded.apiserver.protobuf.typed_values import read_json, with_converted_numbers
from pliant.embedded.schema import deep_copy
from pliant.errors import BadRequest
from pliant.kube.transport.base import JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH


def read_patch(info: RequestInfo) -> tuple[str, Any]:
    """Return the media type and the decoded patch of a request."""
    media = info.request.content_type.partition(";")[0].strip()
    accepted = (JSON_PATCH, MERGE_PATCH, *(() if info.kind.is_custom else (STRATEGIC_MERGE_PATCH,)))
    if media not in accepted:
        raise unsupported_media_type(accepted)
    return media, decode_body(info.request)


def apply_patch(content_type: str, target: dict[str, Any], patch: Any) -> dict[str, Any]:
    """Return a patched copy; raise `BadRequest` for a malformed patch, and `Invalid` for one that does not apply."""
    media = content_type.partition(";")[0].strip()
    if media == JSON_PATCH:
        result = apply_json_patch(target, patch)
    elif media in (MERGE_PATCH, STRATEGIC_MERGE_PATCH):
        if not isinstance(patch, dict):
            raise BadRequest(400, "BadRequest", "a merge patch must be an object")
        if media == MERGE_PATCH:
            result = apply_merge_patch(target, patch)
        else:
            # API servers also convert the numbers of the object: large ones of any type become floats.
            result = apply_strategic_merge(read_json(target), with_converted_numbers(patch))
    else:
        raise unsupported_media_type((JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH))
    if not isinstance(result, dict):
        raise invalid_patch("the result of the patch is not an object")
    return result


def apply_merge_patch(target: Any, patch: Any) -> Any:
    """Apply a merge patch (RFC 7386).

    As in Kubernetes, objects in lists lose their nulls, too, except in a list that replaces an object.
    """
    if not isinstance(patch, dict):
        return deep_copy(patch) if isinstance(target, dict) else _without_nulls(patch)
    base = target if isinstance(target, dict) else {}
    result = {name: deep_copy(value) for name, value in base.items() if name not in patch}
    for name, value in patch.items():
        if value is not None:
            result[name] = apply_merge_patch(base.get(name), value)
    return result


def _without_nulls(value: Any) -> Any:
    """Return a copy in which objects have no nulls; those of lists are elements."""
    if isinstance(value, dict):
        return {name: _without_nulls(member) for name, member in value.items() if member is not None}
    return [_without_nulls(member) for member in value] if isinstance(value, list) else value
