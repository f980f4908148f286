"""The part of an object's metadata every front end reads."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from msgspec import Struct

from pliant.frontends.crd import CustomKind
from pliant.frontends.spec.decoding import decode
from pliant.model.job import EndRequest, JobKey, Owner
from pliant.model.state import JobPhase

DEFAULT_CREATION_TIME = datetime(1970, 1, 1, tzinfo=UTC)
"""When an object was created that no API server has seen."""


class JobMetadata(Struct, frozen=True, kw_only=True, rename="camel"):
    """Who an object is, and since when."""

    name: str
    namespace: str = "default"
    uid: str = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    creation_timestamp: datetime = DEFAULT_CREATION_TIME
    deletion_timestamp: datetime | None = None

    @property
    def key(self) -> JobKey:
        """The job's name."""
        return JobKey(self.namespace, self.name)


def read_metadata(raw: Mapping[str, Any]) -> JobMetadata:
    """The metadata of a raw object; raises InvalidSpec if it cannot be used."""
    return decode(JobMetadata, raw.get("metadata"), "metadata")


def owner_of(raw: Mapping[str, Any], metadata: JobMetadata, kind: CustomKind) -> Owner:
    """The owner of whatever a job creates; lists leave out apiVersion and kind of their items."""
    return Owner(
        api_version=raw.get("apiVersion") or f"{kind.group}/{kind.version}",
        kind=raw.get("kind") or kind.kind,
        plural=kind.plural,
        name=metadata.name,
        uid=metadata.uid,
    )


END_ANNOTATIONS = {
    "failed": JobPhase.FAILED,
    "nodefail": JobPhase.NODE_FAIL,
    "nodefailed": JobPhase.NODE_FAIL,
    "preempted": JobPhase.PREEMPTED,
}
"""Names of annotations, in any case and with or without a domain in front."""


MAX_MESSAGE_CHARS = 300
"""Characters of a message that are kept: it is told in many places, and an annotation may hold 256 KiB."""


def parse_end_request(annotations: Mapping[str, str]) -> EndRequest | None:
    """The end that annotations order, if one does; its value is the message."""
    for key in sorted(annotations):
        phase = END_ANNOTATIONS.get(key.rpartition("/")[2].casefold())
        if phase is not None:
            return EndRequest(
                phase=phase, message=_truncate_to_line(annotations[key]) or f"ordered by annotation {key}"
            )
    return None


def _truncate_to_line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= MAX_MESSAGE_CHARS else f"{line[: MAX_MESSAGE_CHARS - 1]}…"
