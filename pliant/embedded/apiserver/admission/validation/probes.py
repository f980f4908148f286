"""Validation of the probes and lifecycle hooks of a container."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pliant.embedded.apiserver.admission.validation.names import validate_header_name, validate_port_or_name
from pliant.embedded.apiserver.http.errors import forbidden_field, invalid_field, required_field
from pliant.embedded.schema import FieldError
from pliant.embedded.storage.stored_objects import Object

PROBE_FIELDS: Final = ("livenessProbe", "readinessProbe", "startupProbe")
_PROBE_HANDLERS: Final = ("exec", "httpGet", "tcpSocket", "grpc")
_HOOK_HANDLERS: Final = ("exec", "httpGet", "tcpSocket", "sleep")


def validate_container_probes(
    container: Object, container_path: str, grace_seconds: int | None
) -> Iterator[FieldError]:
    """Yield the errors of probes and hooks; a hook sleeps no longer than the grace period of the pod."""
    for field in PROBE_FIELDS:
        probe, path = container.get(field), f"{container_path}.{field}"
        if probe is None:
            continue
        yield from _validate_handler(probe, path, _PROBE_HANDLERS)
        grace, threshold = probe.get("terminationGracePeriodSeconds"), probe.get("successThreshold")
        if grace is not None and grace <= 0:
            yield invalid_field(f"{path}.terminationGracePeriodSeconds", grace, "must be greater than 0")
        if field == "readinessProbe" and grace is not None:
            detail = "must not be set for readinessProbes"
            yield invalid_field(f"{path}.terminationGracePeriodSeconds", grace, detail)
        if field != "readinessProbe" and threshold not in (None, 1):
            yield invalid_field(f"{path}.successThreshold", threshold, "must be 1")
    for field in ("postStart", "preStop"):
        hook, path = (container.get("lifecycle") or {}).get(field), f"{container_path}.lifecycle.{field}"
        if hook is None:
            continue
        yield from _validate_handler(hook, path, _HOOK_HANDLERS)
        sleep = hook.get("sleep")
        is_validated = sleep is not None and not any(hook.get(name) is not None for name in _HOOK_HANDLERS[:-1])
        if is_validated and grace_seconds is not None and not 0 <= (sleep.get("seconds") or 0) <= grace_seconds:
            detail = f"must be non-negative and less than terminationGracePeriodSeconds ({grace_seconds})"
            yield invalid_field(f"{path}.sleep", sleep.get("seconds") or 0, detail)


def _validate_handler(handler: Object, path: str, names: tuple[str, ...]) -> Iterator[FieldError]:
    """Require exactly one handler, with a command or a valid port."""
    present = [name for name in names if handler.get(name) is not None]
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
