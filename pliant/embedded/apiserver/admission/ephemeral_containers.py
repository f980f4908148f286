"""Validation of ephemeral containers, which `kubectl debug` adds to a pod."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from pliant.embedded.apiserver.admission.validation.names import validate_required_name
from pliant.embedded.apiserver.http.errors import duplicate_value, forbidden_field, required_field
from pliant.embedded.schema import FieldError
from pliant.embedded.schema.metadata import DNS_LABEL_RULE
from pliant.embedded.storage.stored_objects import Object

_PATH: Final = "spec.ephemeralContainers"
_FORBIDDEN_FIELDS: Final = (
    *("ports", "resources", "livenessProbe", "readinessProbe", "startupProbe", "lifecycle"),
    *("resizePolicy", "restartPolicy", "restartPolicyRules"),
)
_NOT_ALLOWED: Final = "cannot be set for an Ephemeral Container"


def forbid_on_create(pod: Object) -> Iterator[FieldError]:
    if pod["spec"].get("ephemeralContainers"):
        yield forbidden_field(_PATH, "cannot be set on create")


def validate_ephemeral_containers(pod: Object, old: Object) -> Iterator[FieldError]:
    """Validate that an update only adds ephemeral containers, and that these are valid."""
    containers: list[Any] = pod["spec"].get("ephemeralContainers") or []
    existing: list[Any] = old["spec"].get("ephemeralContainers") or []
    if containers == existing:
        return
    spec = pod["spec"]
    ordinary = {each.get("name") for group in ("containers", "initContainers") for each in spec.get(group) or ()}
    volumes = {volume.get("name") for volume in spec.get("volumes") or ()}
    names = set(ordinary)
    for index, container in enumerate(containers):
        path, name, target = f"{_PATH}[{index}]", container.get("name"), container.get("targetContainerName")
        yield from _validate_fields(container, path, volumes)
        if name in names:
            yield duplicate_value(f"{path}.name", name)
        names.add(name)
        if target and target not in ordinary:
            yield FieldError(f"{path}.targetContainerName", "FieldValueNotFound", f'Not found: "{target}"')
    yield from _validate_existing(containers, existing)


def _validate_fields(container: Object, path: str, volumes: set[Any]) -> Iterator[FieldError]:
    yield from validate_required_name(f"{path}.name", container.get("name") or "", DNS_LABEL_RULE)
    if not container.get("image"):
        yield required_field(f"{path}.image")
    for index, mount in enumerate(container.get("volumeMounts") or ()):
        mount_path = f"{path}.volumeMounts[{index}]"
        if mount.get("name") not in volumes:
            yield FieldError(f"{mount_path}.name", "FieldValueNotFound", f'Not found: "{mount.get("name")}"')
        for field in ("subPath", "subPathExpr"):
            if mount.get(field):
                yield forbidden_field(f"{mount_path}.{field}", _NOT_ALLOWED)
    for field in _FORBIDDEN_FIELDS:
        if container.get(field):
            yield forbidden_field(f"{path}.{field}", _NOT_ALLOWED)


def _validate_existing(containers: list[Any], existing: list[Any]) -> Iterator[FieldError]:
    by_name = {each.get("name"): each for each in containers}
    for container in existing:
        name = container["name"]
        if name not in by_name:
            yield forbidden_field(_PATH, f'existing ephemeral containers "{name}" may not be removed\n')
        elif by_name[name] != container:
            yield forbidden_field(_PATH, f'existing ephemeral containers "{name}" may not be changed\n')
