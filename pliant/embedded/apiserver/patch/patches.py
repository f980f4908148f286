"""Patches in the three forms clients send: merge, JSON and strategic merge."""

from __future__ import annotations

from typing import Any

from pliant.embedded.apiserver.http.errors import unsupported_media_type
from pliant.embedded.apiserver.http.request_body import decode_body
from pliant.embedded.apiserver.http.request_info import RequestInfo
from pliant.embedded.apiserver.patch.json_patch import apply_json_patch
from pliant.embedded.apiserver.patch.strategic_merge import apply_strategic_merge
from pliant.embedded.schema import deep_copy
from pliant.errors import BadRequest, make_api_error
from pliant.kube.transport.base import JSON, JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH


def read_patch(info: RequestInfo) -> tuple[str, Any]:
    """The kind of patch a call carries, and the patch."""
    media = info.request.content_type.partition(";")[0].strip()
    accepted = (JSON_PATCH, MERGE_PATCH, *(() if info.kind.is_custom else (STRATEGIC_MERGE_PATCH,)))
    if media not in accepted:
        raise unsupported_media_type(media or JSON, accepted)
    return media, decode_body(info.request)


def apply_patch(content_type: str, target: dict[str, Any], patch: Any) -> dict[str, Any]:
    """The patched object, which shares nothing with `target` or `patch`.

    BadRequest when the patch is none; Invalid when it is one that does not fit the object.
    """
    form = content_type.partition(";")[0].strip()
    if form == JSON_PATCH:
        result = apply_json_patch(target, patch)
    elif form in (MERGE_PATCH, STRATEGIC_MERGE_PATCH):
        if not isinstance(patch, dict):
            raise BadRequest(400, "BadRequest", "a merge patch must be an object")
        result = apply_merge_patch(target, patch) if form == MERGE_PATCH else apply_strategic_merge(target, patch)
    else:
        forms = ", ".join((JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH))
        says = f"the body of the request was in an unknown format - accepted media types include: {forms}"
        raise make_api_error(415, "UnsupportedMediaType", says)
    if not isinstance(result, dict):
        raise BadRequest(400, "BadRequest", "the patch leaves something that is not an object")
    return result


def apply_merge_patch(target: Any, patch: Any) -> Any:
    """RFC 7386: members replace members, null removes, anything but an object replaces as a whole."""
    if not isinstance(patch, dict):
        return deep_copy(patch)
    base = target if isinstance(target, dict) else {}
    result = {name: deep_copy(value) for name, value in base.items() if name not in patch}
    for name, value in patch.items():
        if value is not None:
            result[name] = apply_merge_patch(base.get(name), value)
    return result
