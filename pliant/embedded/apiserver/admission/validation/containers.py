"""Validation of the containers and init containers of a pod."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final

from pliant.embedded.apiserver.admission.validation import downward_fields, names
from pliant.embedded.apiserver.admission.validation.paths import validate_relative_path
from pliant.embedded.apiserver.admission.validation.probes import PROBE_FIELDS, validate_container_probes
from pliant.embedded.apiserver.admission.validation.resources import validate_resources
from pliant.embedded.apiserver.admission.validation.security import validate_container_security
from pliant.embedded.apiserver.http.errors import (
    duplicate_value,
    forbidden_field,
    invalid_field,
    required_field,
    unsupported_value,
)
from pliant.embedded.schema import FieldError
from pliant.embedded.schema.metadata import DNS_LABEL_RULE
from pliant.embedded.storage.stored_objects import Object

_ENVIRONMENT_SOURCES: Final = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")
_RESTART_POLICIES: Final = ("Always", "Never", "OnFailure")


def validate_containers(spec: Object, volumes: Collection[str]) -> Iterator[FieldError]:
    """Yield the errors of the containers of a pod; `volumes` are the names of its valid volumes."""
    containers = spec.get("containers") or []
    if not containers:
        yield required_field("spec.containers")
    known: set[str] = set()
    for index, container in enumerate(containers):
        path, name = f"spec.containers[{index}]", container.get("name") or ""
        yield from _validate_container(container, path, volumes)
        if name in known:
            yield duplicate_value(f"{path}.name", name)
        known.add(name)
        yield from validate_container_probes(container, path)
    yield from _validate_init_containers(spec, volumes, known)


def _validate_init_containers(spec: Object, volumes: Collection[str], known: set[str]) -> Iterator[FieldError]:
    for index, container in enumerate(spec.get("initContainers") or ()):
        path, name = f"spec.initContainers[{index}]", container.get("name") or ""
        policy = container.get("restartPolicy")
        yield from _validate_container(container, path, volumes)
        if policy is not None and policy not in _RESTART_POLICIES:
            yield unsupported_value(f"{path}.restartPolicy", policy, _RESTART_POLICIES)
        if name in known:
            yield duplicate_value(f"{path}.name", name)
        elif name:
            known.add(name)
        if policy == "Always":
            yield from validate_container_probes(container, path)
            continue
        for field in (*PROBE_FIELDS, "lifecycle"):
            if container.get(field) is not None:
                detail = "may not be set for init containers without restartPolicy=Always"
                yield forbidden_field(f"{path}.{field}", detail)


def _validate_container(container: Object, path: str, volumes: Collection[str]) -> Iterator[FieldError]:
    yield from names.validate_required_name(f"{path}.name", container.get("name") or "", DNS_LABEL_RULE)
    if not container.get("image"):
        yield required_field(f"{path}.image")
    yield from _validate_ports(container, f"{path}.ports")
    for index, variable in enumerate(container.get("env") or ()):
        yield from _validate_variable(variable, f"{path}.env[{index}]")
    yield from _validate_environment_sources(container, f"{path}.envFrom")
    yield from _validate_mounts(container, f"{path}.volumeMounts", volumes)
    yield from validate_resources(container.get("resources") or {}, f"{path}.resources")
    yield from validate_container_security(container.get("securityContext") or {}, f"{path}.securityContext")


def _validate_ports(container: Object, path: str) -> Iterator[FieldError]:
    known: set[str] = set()
    for index, port in enumerate(container.get("ports") or ()):
        port_path, name = f"{path}[{index}]", port.get("name")
        if name and (problem := names.port_name_problem(name)):
            yield invalid_field(f"{port_path}.name", name, problem)
        elif name and name in known:
            yield duplicate_value(f"{port_path}.name", name)
        known.add(name)
        if port.get("containerPort"):
            yield from names.validate_port_number(f"{port_path}.containerPort", port["containerPort"])
        else:
            yield required_field(f"{port_path}.containerPort")
        if port.get("hostPort"):
            yield from names.validate_port_number(f"{port_path}.hostPort", port["hostPort"])


def _validate_variable(variable: Object, path: str) -> Iterator[FieldError]:
    yield from names.validate_environment_name(f"{path}.name", variable.get("name") or "")
    source = variable.get("valueFrom")
    if source is None:
        return
    path = f"{path}.valueFrom"
    present = [name for name in _ENVIRONMENT_SOURCES if source.get(name) is not None]
    for name in present:
        content, below = source[name], f"{path}.{name}"
        match name:
            case "fieldRef":
                yield from downward_fields.validate_field_ref(content, below, downward_fields.ENVIRONMENT_FIELDS)
            case "resourceFieldRef":
                yield from downward_fields.validate_resource_ref(content, below)
            case "configMapKeyRef" | "secretKeyRef":
                yield from names.validate_name(f"{below}.name", content.get("name") or "")
                yield from names.validate_config_key(f"{below}.key", content.get("key") or "")
    if not present:
        yield invalid_field(path, "", "must specify one of: " + ", ".join(f"`{name}`" for name in _ENVIRONMENT_SOURCES))
    elif variable.get("value"):
        yield invalid_field(path, "", "may not be specified when `value` is not empty")
    elif len(present) > 1:
        yield invalid_field(path, "", "may not have more than one field specified at a time")


def _validate_environment_sources(container: Object, path: str) -> Iterator[FieldError]:
    for index, source in enumerate(container.get("envFrom") or ()):
        if source.get("prefix"):
            yield from names.validate_environment_name(f"{path}[{index}].prefix", source["prefix"])
        present = [name for name in ("configMapRef", "secretRef") if source.get(name) is not None]
        for name in present:
            reference = source[name].get("name") or ""
            yield from names.validate_required_name(f"{path}[{index}].{name}.name", reference)
        if not present:
            yield invalid_field(path, "", "must specify one of: `configMapRef` or `secretRef`")
        elif len(present) > 1:
            yield invalid_field(path, "", "may not have more than one field specified at a time")


def _validate_mounts(container: Object, path: str, volumes: Collection[str]) -> Iterator[FieldError]:
    known: set[str] = set()
    for index, mount in enumerate(container.get("volumeMounts") or ()):
        mount_path, name, target = f"{path}[{index}]", mount.get("name") or "", mount.get("mountPath") or ""
        if not name:
            yield required_field(f"{mount_path}.name")
        if name not in volumes:
            yield FieldError(f"{mount_path}.name", "FieldValueNotFound", f'Not found: "{name}"')
        if not target:
            yield required_field(f"{mount_path}.mountPath")
        elif "\0" in target:
            yield invalid_field(f"{mount_path}.mountPath", target, "must not contain NUL")
        if target in known:
            yield invalid_field(f"{mount_path}.mountPath", target, "must be unique")
        known.add(target)
        if mount.get("subPath") and mount.get("subPathExpr"):
            detail = "subPathExpr and subPath are mutually exclusive"
            yield invalid_field(f"{mount_path}.subPathExpr", mount["subPathExpr"], detail)
        for field in ("subPath", "subPathExpr"):
            if mount.get(field):  # API servers name this path without the index
                yield from validate_relative_path(mount[field], f"{path}.{field}")
