"""The media types of objects, and which of them a client accepts."""

from __future__ import annotations

from typing import Final

from pliant.kube.transport.base import JSON_CONTENT_TYPE

PROTOBUF_MEDIA_TYPE: Final = "application/vnd.kubernetes.protobuf"
JSON_MEDIA_TYPES: Final = (JSON_CONTENT_TYPE, "application/*", "*/*")
"""The media types and ranges that JSON satisfies."""


def accepts_only_protobuf(accept: str) -> bool:
    """Whether an Accept header names protobuf, and nothing that JSON satisfies."""
    if PROTOBUF_MEDIA_TYPE not in accept:
        return False
    return {clause.partition(";")[0].strip() for clause in accept.split(",")}.isdisjoint(JSON_MEDIA_TYPES)
