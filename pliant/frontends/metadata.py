"""The part of an object's metadata every front end reads."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from msgspec import Struct

from pliant.frontends.crd import CustomKind
from pliant.frontends.reading import read
from pliant.model.job import JobKey, Owner

NEVER_STORED = datetime(1970, 1, 1, tzinfo=UTC)
"""When an object was created that no API server has seen."""


class Metadata(Struct, frozen=True, kw_only=True, rename="camel"):
    """Who an object is, and since when."""

    name: str
    namespace: str = "default"
    uid: str = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    creation_timestamp: datetime = NEVER_STORED
    deletion_timestamp: datetime | None = None

    @property
    def key(self) -> JobKey:
        """The job's name."""
        return JobKey(self.namespace, self.name)


def read_metadata(raw: Mapping[str, Any]) -> Metadata:
    """The metadata of a raw object; raises InvalidSpec if it cannot be used."""
    return read(Metadata, raw.get("metadata"), "metadata")


def owner_of(raw: Mapping[str, Any], metadata: Metadata, kind: CustomKind) -> Owner:
    """The owner of whatever a job creates; lists leave out apiVersion and kind of their items."""
    return Owner(
        api_version=raw.get("apiVersion") or f"{kind.group}/{kind.version}",
        kind=raw.get("kind") or kind.kind,
        plural=kind.plural,
        name=metadata.name,
        uid=metadata.uid,
    )
