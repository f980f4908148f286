"""Validation of ephemeral containers, which `kubectl debug` adds to a pod."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from pliant.embedded.apiserver.admission.validation.containers import PodContext, validate_container
from pliant.embedded.apiserver.http.errors import duplicate_value, forbidden_field
from pliant.embedded.schema import FieldError
from pliant.embedded.storage.stored_objects import Object

_PATH: Final = "spec.ephemeralContainers"
FORBIDDEN_FIELDS: Final = (
    *("ports", "livenessProbe", "readinessProbe", "startupProbe", "lifecycle"),
    *("resizePolicy", "restartPolicy", "restartPolicyRules"),
)
_NOT_ALLOWED: Final = "cannot be set for an Ephemeral Container"


def forbid_on_create(pod: Object) -> Iterator[FieldError]:
    if pod["spec"].get("ephemeralContainers"):
        yield forbidden_field(_PATH, "cannot be set on create")


def validate_ephemeral_containers(context: PodContext) -> Iterator[FieldError]:
    spec = context.spec
    if not spec.get("ephemeralContainers"):
        return
    ordinary = {each.get("name") for group in ("containers", "initContainers") for each in spec.get(group) or ()}
    names = set(ordinary)
    for index, container in enumerate(spec["ephemeralContainers"]):
        path, name, target = f"{_PATH}[{index}]", container.get("name"), container.get("targetContainerName")
        yield from validate_container(container, path, context)
        if name in names:
            yield duplicate_value(f"{path}.name", name)
        names.add(name)
        if target and target not in ordinary:
            yield FieldError(f"{path}.targetContainerName", "FieldValueNotFound", f'Not found: "{target}"')
        yield from _validate_fields(container, path)


def _validate_fields(container: Object, path: str) -> Iterator[FieldError]:
    for index, mount in enumerate(container.get("volumeMounts") or ()):
        for field in ("subPath", "subPathExpr"):
            if mount.get(field):
                yield forbidden_field(f"{path}.volumeMounts[{index}].{field}", _NOT_ALLOWED)
    for field in FORBIDDEN_FIELDS:
        if container.get(field) is not None:
            yield forbidden_field(f"{path}.{field}", _NOT_ALLOWED)
    if any(value is not None for value in (container.get("resources") or {}).values()):
        yield forbidden_field(f"{path}.resources", _NOT_ALLOWED)


def validate_added_containers(pod: Object, old: Object) -> Iterator[FieldError]:
    """Require that an update only adds ephemeral containers."""
    by_name: dict[str, Any] = {each.get("name") or "": each for each in pod["spec"].get("ephemeralContainers") or ()}
    for container in old["spec"].get("ephemeralContainers") or ():
        name = container["name"]
        if name not in by_name:
            yield forbidden_field(_PATH, f'existing ephemeral containers "{name}" may not be removed\n')
        elif by_name[name] != container:
            yield forbidden_field(_PATH, f'existing ephemeral containers "{name}" may not be changed\n')
