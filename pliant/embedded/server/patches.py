"""Patches in the three forms clients send: merge, JSON and strategic merge."""

from __future__ import annotations

from typing import Any

from pliant.embedded.schema import copied
from pliant.embedded.server.bodies import read_any
from pliant.embedded.server.calls import Call
from pliant.embedded.server.json_patch import json_patched
from pliant.embedded.server.refusals import unsupported_media
from pliant.embedded.server.strategic_merge import strategically_merged
from pliant.errors import BadRequest, api_error
from pliant.kube.transport import JSON, JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH


def read_patch(call: Call) -> tuple[str, Any]:
    """The kind of patch a call carries, and the patch."""
    media = call.request.content_type.partition(";")[0].strip()
    accepted = (JSON_PATCH, MERGE_PATCH, *(() if call.kind.is_custom else (STRATEGIC_PATCH,)))
    if media not in accepted:
        raise unsupported_media(media or JSON, accepted)
    return media, read_any(call.request)


def apply_patch(content_type: str, target: dict[str, Any], patch: Any) -> dict[str, Any]:
    """The patched object, which shares nothing with `target` or `patch`.

    BadRequest when the patch is none; Invalid when it is one that does not fit the object.
    """
    form = content_type.partition(";")[0].strip()
    if form == JSON_PATCH:
        result = json_patched(target, patch)
    elif form in (MERGE_PATCH, STRATEGIC_PATCH):
        if not isinstance(patch, dict):
            raise BadRequest(400, "BadRequest", "a merge patch must be an object")
        result = merged(target, patch) if form == MERGE_PATCH else strategically_merged(target, patch)
    else:
        forms = ", ".join((JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH))
        says = f"the body of the request was in an unknown format - accepted media types include: {forms}"
        raise api_error(415, "UnsupportedMediaType", says)
    if not isinstance(result, dict):
        raise BadRequest(400, "BadRequest", "the patch leaves something that is not an object")
    return result


def merged(target: Any, patch: Any) -> Any:
    """RFC 7386: members replace members, null removes, anything but an object replaces as a whole."""
    if not isinstance(patch, dict):
        return copied(patch)
    base = target if isinstance(target, dict) else {}
    result = {name: copied(value) for name, value in base.items() if name not in patch}
    for name, value in patch.items():
        if value is not None:
            result[name] = merged(base.get(name), value)
    return result
