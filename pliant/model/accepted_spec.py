"""The last spec of a job that the operator accepted, as it is stored."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

LAST_APPLIED_ANNOTATION = "kubectl.kubernetes.io/last-applied-configuration"


class AcceptedSpec(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The last spec that the operator accepted; it stays in effect while an edit is rejected."""

    generation: int = 0
    annotations: dict[str, str] = {}
    data: str = ""
    """The compressed fields of the object, encoded as text."""
    config_map: str = ""
    """The ConfigMap that holds the data if it is too long for the status."""

    def is_of(self, metadata: Mapping[str, Any]) -> bool:
        """Return whether this is the spec of an object with these metadata."""
        is_same_spec = 0 < self.generation == metadata.get("generation")
        return is_same_spec and self.annotations == relevant_annotations(metadata)

    def with_data(self, data: str) -> AcceptedSpec:
        return replace(self, data=data)


def relevant_annotations(metadata: Mapping[str, Any]) -> dict[str, str]:
    """Return the annotations that may affect a job: all but the copy of the object that kubectl keeps."""
    annotations = metadata.get("annotations") or {}
    return {name: value for name, value in annotations.items() if name != LAST_APPLIED_ANNOTATION}
