"""Decoding of request bodies: JSON, YAML without aliases, and protobuf."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

import msgspec

from pliant.embedded.apiserver.http.errors import bad_request, unsupported_media_type
from pliant.embedded.apiserver.http.negotiation import Representation
from pliant.embedded.apiserver.protobuf.decoder import decode_protobuf
from pliant.errors import BadRequest
from pliant.kube.transport.base import APPLY_PATCH, JSON_CONTENT_TYPE, Request

_YAML_MEDIA_TYPES = (Representation.YAML, "application/x-yaml", "text/yaml")
MAX_BODY_BYTES = 3 * 1024 * 1024
MAX_DEPTH = 200


def decode_object_body(request: Request) -> dict[str, Any]:
    content = decode_body(request)
    if not isinstance(content, dict):
        raise bad_request("the body of the request must be an object")
    return content


def object_field(content: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return a field of a body that must be an object; empty if it is absent or null."""
    value = content.get(name)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise bad_request(f"{name}: Invalid value: must be an object")
    return value


def decode_body(request: Request) -> Any:
    """Decode the body according to its content type; it need not be an object."""
    media = request.content_type.partition(";")[0].strip() or JSON_CONTENT_TYPE
    if not request.body:
        raise bad_request("the request has no body")
    is_patch = request.method == "PATCH"
    is_apply = is_patch and media == APPLY_PATCH
    if media in _YAML_MEDIA_TYPES or (is_apply and not request.body.startswith(b"{")):
        return _decode_yaml(request.body)
    if media == Representation.PROTOBUF:
        return decode_protobuf(request.body)
    if media != JSON_CONTENT_TYPE and not is_apply and not (is_patch and media.endswith("+json")):
        raise unsupported_media_type(tuple(Representation))
    try:
        content = msgspec.json.decode(request.body)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise bad_request(f"the body of the request is not JSON: {error}") from None
    if request.body.count(b"{") + request.body.count(b"[") > MAX_DEPTH and _is_too_deep(content):
        raise _too_deep_error()
    return content


def _is_too_deep(content: Any) -> bool:
    """Whether objects and lists are nested so deep that functions that call themselves for each level could fail."""
    level = [content]
    for _ in range(MAX_DEPTH + 1):
        members = (value.values() if isinstance(value, dict) else value for value in level)
        level = [member for values in members for member in values if isinstance(member, dict | list)]
        if not level:
            return False
    return True


def _too_deep_error() -> BadRequest:
    return bad_request(f"the body of the request is nested more than {MAX_DEPTH} levels deep")


def _decode_yaml(body: bytes) -> Any:
    import yaml

    try:
        _check_yaml_events(yaml.parse(body, Loader=yaml.CSafeLoader))
        return msgspec.json.decode(msgspec.json.encode(yaml.load(body, Loader=_json_compatible_yaml_loader())))  # noqa: S506
    except (yaml.YAMLError, RecursionError, TypeError, ValueError) as error:
        raise bad_request(f"the body of the request is not YAML: {error}") from None


def _check_yaml_events(events: Iterable[Any]) -> None:
    """Reject aliases and deep nesting before objects are built.

    With aliases, a few bytes of YAML expand to gigabytes of JSON. The C library builds nested objects recursively, so
    deep nesting would overflow its stack. It also takes quadratic time, so the events are checked while it parses.
    """
    import yaml

    depth = 0
    for event in events:
        if isinstance(event, yaml.AliasEvent):
            raise bad_request("the body of the request uses YAML aliases, which are not accepted")
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > MAX_DEPTH:
            raise _too_deep_error()


@cache
def _json_compatible_yaml_loader() -> Any:
    """Return a YAML loader that reads timestamps as strings, because JSON has no timestamps."""
    import yaml

    class Loader(yaml.CSafeLoader):
        pass

    Loader.yaml_implicit_resolvers = {
        first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
        for first, resolvers in yaml.CSafeLoader.yaml_implicit_resolvers.items()
    }
    return Loader
