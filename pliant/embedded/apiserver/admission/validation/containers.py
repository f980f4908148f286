"""Validation of the containers and init containers of a pod."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from pliant.embedded.apiserver.admission.validation import downward_fields, names
from pliant.embedded.apiserver.admission.validation.paths import validate_no_backsteps
from pliant.embedded.apiserver.admission.validation.pods.restart_rules import validate_restart_rules
from pliant.embedded.apiserver.admission.validation.pods.volume_mounts import (
    validate_volume_devices,
    validate_volume_mounts,
)
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
_RESIZED_RESOURCES: Final = ("cpu", "memory")
_RESIZE_POLICIES: Final = ("NotRequired", "RestartContainer")


@dataclass(frozen=True, slots=True)
class PodContext:
    """What of a pod the validity of its containers depends on."""

    spec: Object
    volumes: Mapping[str, Object]
    """The valid volumes by name."""

    @property
    def grace_seconds(self) -> int | None:
        seconds: int | None = self.spec.get("terminationGracePeriodSeconds")
        return seconds

    @property
    def claims(self) -> set[str]:
        return {each.get("name") or "" for each in self.spec.get("resourceClaims") or ()}


def validate_containers(context: PodContext) -> Iterator[FieldError]:
    """Yield the errors of the containers and init containers of a pod."""
    containers = context.spec.get("containers") or []
    if not containers:
        yield required_field("spec.containers")
    known: set[str] = set()
    host_ports: set[str] = set()
    for index, container in enumerate(containers):
        path, name = f"spec.containers[{index}]", container.get("name") or ""
        yield from validate_container(container, path, context)
        if name in known:
            yield duplicate_value(f"{path}.name", name)
        known.add(name)
        yield from validate_container_probes(container, path, context.grace_seconds)
        yield from validate_restart_rules(container, path)
        yield from _validate_host_ports(container, path, host_ports)
    yield from _validate_init_containers(context, known)


def _validate_init_containers(context: PodContext, known: set[str]) -> Iterator[FieldError]:
    for index, container in enumerate(context.spec.get("initContainers") or ()):
        path, name = f"spec.initContainers[{index}]", container.get("name") or ""
        yield from validate_container(container, path, context)
        yield from validate_restart_rules(container, path)
        if name in known:
            yield duplicate_value(f"{path}.name", name)
        elif name:
            known.add(name)
        # API servers name the first init container, because they compare the ports of each one by itself.
        yield from _validate_host_ports(container, "spec.initContainers[0]", set())
        if container.get("restartPolicy") == "Always":
            yield from validate_container_probes(container, path, context.grace_seconds)
            continue
        for field in (*PROBE_FIELDS, "lifecycle"):
            if container.get(field) is not None:
                detail = "may not be set for init containers without restartPolicy=Always"
                yield forbidden_field(f"{path}.{field}", detail)
        for number, policy in enumerate(container.get("resizePolicy") or ()):
            if policy.get("restartPolicy") == "RestartContainer":
                detail = "must not be set to 'RestartContainer' for non-sidecar initContainers"
                yield invalid_field(f"{path}.resizePolicy[{number}].restartPolicy", policy["restartPolicy"], detail)


def validate_container(container: Object, path: str, context: PodContext) -> Iterator[FieldError]:
    """Yield the errors of what all types of containers have."""
    yield from names.validate_required_name(f"{path}.name", container.get("name") or "", DNS_LABEL_RULE)
    if not container.get("image"):
        yield required_field(f"{path}.image")
    yield from _validate_ports(container, f"{path}.ports")
    for index, variable in enumerate(container.get("env") or ()):
        yield from _validate_variable(variable, f"{path}.env[{index}]")
    yield from _validate_environment_sources(container, f"{path}.envFrom")
    if container.get("volumeMounts"):
        yield from validate_volume_mounts(container, f"{path}.volumeMounts", context.volumes)
    if container.get("volumeDevices"):
        yield from validate_volume_devices(container, f"{path}.volumeDevices", context.volumes)
    if resources := container.get("resources"):
        yield from validate_resources(resources, f"{path}.resources", context.claims)
    yield from _validate_resize_policy(container, f"{path}.resizePolicy", context)
    if (security := container.get("securityContext")) is not None:
        has_host_users = context.spec.get("hostUsers") is not False
        yield from validate_container_security(security, f"{path}.securityContext", host_users=has_host_users)


def _validate_resize_policy(container: Object, path: str, context: PodContext) -> Iterator[FieldError]:
    known: set[str] = set()
    for index, policy in enumerate(container.get("resizePolicy") or ()):
        resource, action = policy.get("resourceName") or "", policy.get("restartPolicy") or ""
        if resource in known:
            yield duplicate_value(f"{path}[{index}]", resource)
        known.add(resource)
        for value, supported in ((resource, _RESIZED_RESOURCES), (action, _RESIZE_POLICIES)):
            if not value:
                yield required_field(path)
            elif value not in supported:
                yield unsupported_value(path, value, supported)
        if context.spec.get("restartPolicy") == "Never" and action != "NotRequired":
            yield invalid_field(path, action, "must be 'NotRequired' when pod `restartPolicy` is 'Never'")


def _validate_host_ports(container: Object, path: str, known: set[str]) -> Iterator[FieldError]:
    for index, port in enumerate(container.get("ports") or ()):
        if not port.get("hostPort"):
            continue
        key = f"{port.get('protocol')}/{port.get('hostIP') or ''}/{port['hostPort']}"
        if key in known:
            yield duplicate_value(f"{path}.ports[{index}].hostPort", key)
        known.add(key)


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
            case "fileKeyRef":
                yield from names.validate_environment_name(f"{below}.key", content.get("key") or "")
                volume = content.get("volumeName") or ""
                yield from names.validate_required_name(f"{below}.volumeName", volume, DNS_LABEL_RULE)
                if content.get("path"):
                    yield from validate_no_backsteps(content["path"], f"{below}.path")
                else:
                    yield required_field(f"{below}.path")
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
