"""Request bodies: JSON or YAML, nothing that surprises a JSON encoder later."""

from __future__ import annotations

from typing import Any

import msgspec

from pliant.embedded.apiserver.http import protobuf
from pliant.embedded.apiserver.http.errors import bad_request, unsupported_media_type
from pliant.kube.transport.base import APPLY_PATCH, JSON, Request

YAML_MEDIA_TYPES = ("application/yaml", "application/x-yaml", "text/yaml", APPLY_PATCH)
MAX_BODY_BYTES = 3 * 1024 * 1024


def decode_object_body(request: Request) -> dict[str, Any]:
    """The object a request carries."""
    content = decode_body(request)
    if not isinstance(content, dict):
        raise bad_request("the body of the request must be an object")
    return content


def decode_body(request: Request) -> Any:
    """Whatever JSON or YAML value a request carries."""
    media = request.content_type.partition(";")[0].strip() or JSON
    if not request.body:
        raise bad_request("the request has no body")
    if media in YAML_MEDIA_TYPES and not (media == APPLY_PATCH and request.body.startswith(b"{")):
        return _decode_yaml(request.body)
    if media == protobuf.PROTOBUF_MEDIA_TYPE:
        return protobuf.decode_protobuf(request.body)
    if media not in (JSON, APPLY_PATCH) and not media.endswith("+json"):
        raise unsupported_media_type(media, (JSON, YAML_MEDIA_TYPES[0]))
    try:
        return msgspec.json.decode(request.body)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as problem:
        raise bad_request(f"the body of the request is not JSON: {problem}") from None


def _decode_yaml(body: bytes) -> Any:
    import yaml

    try:
        # Aliases would let a few bytes stand for gigabytes of JSON.
        if any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(body, Loader=yaml.CSafeLoader)):
            raise bad_request("the body of the request uses YAML aliases, which are not accepted")
        return msgspec.json.decode(msgspec.json.encode(yaml.load(body, Loader=_json_compatible_yaml_loader())))  # noqa: S506
    except (yaml.YAMLError, RecursionError, TypeError, ValueError) as problem:
        raise bad_request(f"the body of the request is not YAML: {problem}") from None


def _json_compatible_yaml_loader() -> Any:
    import yaml

    class Loader(yaml.CSafeLoader):
        """Reads only what JSON can hold: dates stay text."""

    Loader.yaml_implicit_resolvers = {
        first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
        for first, resolvers in yaml.CSafeLoader.yaml_implicit_resolvers.items()
    }
    return Loader
