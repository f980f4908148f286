"""Content negotiation: the representation of a response that a client accepts."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from functools import lru_cache
from typing import Final, NamedTuple

from pliant.embedded.apiserver.http.errors import not_acceptable
from pliant.embedded.apiserver.protobuf.descriptors import find_kind
from pliant.embedded.registry.kinds import Kind


class Representation(StrEnum):
    """The media types in which objects are served."""

    JSON = "application/json"
    YAML = "application/yaml"
    PROTOBUF = "application/vnd.kubernetes.protobuf"


class AcceptedFormat(NamedTuple):
    """A representation, and what it contains."""

    representation: Representation
    response_kind: str = ""
    """The `as=` parameter, such as Table; "" for plain objects."""


TABLE: Final = "Table"
PARTIAL_METADATA: Final = "PartialObjectMetadata"
_RESPONSE_KINDS: Final = (TABLE, PARTIAL_METADATA, f"{PARTIAL_METADATA}List")
_RANGES: Final = {
    **{each.value: each for each in Representation},
    **dict.fromkeys(("application/*", "*/*"), Representation.JSON),
}


@lru_cache(maxsize=128)
def accepted_format(accept: str) -> AcceptedFormat | None:
    """Return the format that an Accept header prefers; None if it names none that is served.

    Objects are stored as JSON, so JSON costs the server nothing: a client that prefers protobuf gets JSON if it accepts
    it as well.
    """
    if not accept.strip():
        return AcceptedFormat(Representation.JSON)
    formats = _parse_accept(accept)
    if not formats:
        return None
    preferred = formats[0]
    if preferred.representation is Representation.PROTOBUF:
        as_json = AcceptedFormat(Representation.JSON, preferred.response_kind)
        return as_json if as_json in formats else preferred
    return preferred


def require_acceptable(kind: Kind, accept: str, *, is_watch: bool) -> None:
    """Raise `NotAcceptable` unless the client accepts a representation in which a kind is served."""
    accepted = accepted_format(accept)
    if accepted is not None and accepted.representation is Representation.JSON:
        return  # most requests: the descriptors of messages need not be loaded
    served = served_representations(kind, is_watch=is_watch)
    if accepted is None:
        raise not_acceptable(served)
    is_metadata_in_protobuf = accepted.representation is Representation.PROTOBUF and accepted.response_kind
    if accepted.representation not in served and not is_metadata_in_protobuf:
        raise not_acceptable(served)


def served_representations(kind: Kind, *, is_watch: bool) -> Sequence[Representation]:
    """Return the representations of a kind: custom kinds have no protobuf, and the events of a watch no YAML."""
    has_protobuf = find_kind(kind.api_version, kind.kind) is not None
    return [
        each
        for each in Representation
        if (has_protobuf or each is not Representation.PROTOBUF) and not (is_watch and each is Representation.YAML)
    ]


def _parse_accept(accept: str) -> list[AcceptedFormat]:
    """Return the served formats that a header names; the preferred one is the first."""
    qualities: list[tuple[float, AcceptedFormat]] = []
    for clause in accept.split(","):
        media, *parameters = (part.strip() for part in clause.split(";"))
        options = dict(parameter.partition("=")[::2] for parameter in parameters)
        representation = _RANGES.get(media)
        response_kind = options.get("as", "")
        if representation is None or not _is_served(representation, response_kind, options.get("v", "")):
            continue
        quality = _parse_quality(options.get("q", "1"))
        if quality > 0:
            qualities.append((-quality, AcceptedFormat(representation, response_kind)))
    return [accepted for _, accepted in sorted(qualities, key=lambda pair: pair[0])]


def _is_served(representation: Representation, response_kind: str, version: str) -> bool:
    if not response_kind:
        return True
    if representation is Representation.PROTOBUF and response_kind == TABLE:
        return False
    return response_kind in _RESPONSE_KINDS and version == "v1"


def _parse_quality(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0
