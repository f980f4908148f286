"""Capabilities that containers request, and that no container of this cluster gets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

CAPABILITIES_REASON = "CapabilitiesNotGranted"
"""The reason of the event about such a request."""


def capability_warnings(pod_spec: Mapping[str, Any]) -> Iterator[str]:
    """Yield a warning for each container that requests capabilities."""
    for field in ("initContainers", "containers"):
        for index, container in enumerate(pod_spec.get(field) or ()):
            security = container.get("securityContext") or {}
            path = f"spec.{field}[{index}].securityContext"
            added = ", ".join((security.get("capabilities") or {}).get("add") or ())
            if added:
                yield f"{path}.capabilities.add: {added} not granted: containers of this cluster have no capabilities"
            if security.get("privileged"):
                yield f"{path}.privileged is ignored: containers of this cluster have no capabilities"
