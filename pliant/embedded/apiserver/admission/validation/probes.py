"""Validation of the probes and lifecycle hooks of a container."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pliant.embedded.apiserver.admission.validation.names import validate_header_name, validate_port_or_name
from pliant.embedded.apiserver.http.errors import forbidden_field, invalid_field, required_field
from pliant.embedded.schema import FieldError
from pliant.embedded.storage.stored_objects import Object

PROBE_FIELDS: Final = ("livenessProbe", "readinessProbe", "startupProbe")
_HANDLERS: Final = ("exec", "httpGet", "tcpSocket", "grpc", "sleep")


def validate_container_probes(container: Object, container_path: str) -> Iterator[FieldError]:
    for field in PROBE_FIELDS:
        probe, path = container.get(field), f"{container_path}.{field}"
        if probe is None:
            continue
        yield from _validate_handler(probe, path)
        grace, threshold = probe.get("terminationGracePeriodSeconds"), probe.get("successThreshold")
        if grace is not None and grace <= 0:
            yield invalid_field(f"{path}.terminationGracePeriodSeconds", grace, "must be greater than 0")
        if field == "readinessProbe" and grace is not None:
            detail = "must not be set for readinessProbes"
            yield invalid_field(f"{path}.terminationGracePeriodSeconds", grace, detail)
        if field != "readinessProbe" and threshold not in (None, 1):
            yield invalid_field(f"{path}.successThreshold", threshold, "must be 1")
    for field in ("postStart", "preStop"):
        hook = (container.get("lifecycle") or {}).get(field)
        if hook is not None:
            yield from _validate_handler(hook, f"{container_path}.lifecycle.{field}")


def _validate_handler(handler: Object, path: str) -> Iterator[FieldError]:
    """Require exactly one handler, with a command or a valid port."""
    present = [name for name in _HANDLERS if handler.get(name) is not None]
    if not present:
        yield required_field(path, "must specify a handler type")
        return
    for name in present[1:]:
        yield forbidden_field(f"{path}.{name}", "may not specify more than 1 handler type")
    name, action = present[0], handler[present[0]]
    if name == "exec" and not action.get("command"):
        yield required_field(f"{path}.exec.command")
    if name in ("httpGet", "tcpSocket", "grpc"):
        yield from validate_port_or_name(f"{path}.{name}.port", action.get("port", 0))
    for header in action.get("httpHeaders") or ():
        yield from validate_header_name(f"{path}.httpGet.httpHeaders", header.get("name") or "")
