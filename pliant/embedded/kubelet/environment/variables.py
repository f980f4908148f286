"""Resolve the environment and command line of a container, by the rules of Kubernetes."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any, Final

from pliant.errors import RetryLater, UserError
from pliant.schemas.quantity import parse_quantity

CONFIG_MAP_KIND = "ConfigMap"
VOLUME_CLAIM_KIND = "PersistentVolumeClaim"
CLAIM_UID_KEY = "uid"
"""The only key in the data of a persistent volume claim."""
SECRET_KIND = "Secret"  # noqa: S105 - the name of a kind
_PLIANT_ENTRYPOINT: Final = ("pliant",)
_VARIABLE_REFERENCE: Final = re.compile(r"\$(?:\$|\(([^)]*)\))")
_METADATA_SUBSCRIPT: Final = re.compile(r"metadata\.(labels|annotations)\['(.+)'\]\Z")

ContainerObject = Mapping[str, Any]
Environment = Mapping[str, str]
PodObject = Mapping[str, Any]
ConfigData = Mapping[tuple[str, str], Mapping[str, bytes]]
"""The contents of ConfigMaps, Secrets and volume claims, by kind and name."""


class MissingConfig(RetryLater):
    """A ConfigMap or Secret that a pod references does not exist yet, or lacks a key."""

    def __init__(self, kind: str, name: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind
        self.name = name


class UnsupportedPodSpec(UserError):
    """A field of the pod spec that is invalid or not supported; the message says what to change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedPod:
    """A pod with its addresses and the contents of the objects that it references."""

    pod: PodObject
    address: str
    host_address: str
    node_capacity: Mapping[str, str]
    config_data: ConfigData
    """The referenced objects that exist."""

    def with_config_data(self, config_data: ConfigData) -> ResolvedPod:
        return replace(self, config_data=config_data)


def build_environment(container: ContainerObject, resolved_pod: ResolvedPod, base_env: Environment) -> dict[str, str]:
    """Return the environment of a container: `base_env`, `envFrom` and `env`, later ones overriding earlier ones."""
    base_env = _with_pliant_on_path(container, base_env)
    result = dict(base_env)
    for source in container.get("envFrom") or ():
        result.update(_env_from_object(source, resolved_pod))
    container_env: dict[str, str] = {}
    for variable in container.get("env") or ():
        value = _variable_value(variable, container, resolved_pod, {**base_env, **container_env})
        if value is not None:
            container_env[variable["name"]] = value
    return result | container_env


def _with_pliant_on_path(container: ContainerObject, base_env: Environment) -> Environment:
    """Put this installation of Pliant first on the PATH of a container with Pliant's own image."""
    if not _has_pliant_image(container):
        return base_env
    return {**base_env, "PATH": ":".join(filter(None, (str(Path(sys.executable).parent), base_env.get("PATH"))))}


def _has_pliant_image(container: ContainerObject) -> bool:
    return (container.get("image") or "").rpartition("/")[2].partition("@")[0].partition(":")[0] == "pliant"


def build_command_line(container: ContainerObject, variables: Environment) -> list[str]:
    """Return the command and arguments of a container with `$(VAR)` expanded.

    The only image whose entrypoint is known is that of Pliant.
    """
    command = container.get("command") or (_PLIANT_ENTRYPOINT if _has_pliant_image(container) else ())
    arguments = [*command, *(container.get("args") or ())]
    return [expand_variables(argument, variables) for argument in arguments]


def expand_variables(text: str, variables: Environment) -> str:
    """Expand `$(VAR)` if VAR is known, and `$$` to a dollar sign."""

    def replacement(match: re.Match[str]) -> str:
        name = match[1]
        return "$" if name is None else variables.get(name, match[0])

    return _VARIABLE_REFERENCE.sub(replacement, text)


def require_config_data(kind: str, reference: Mapping[str, Any], resolved_pod: ResolvedPod) -> Mapping[str, bytes]:
    """Return the data of a referenced object; nothing if it is optional and does not exist."""
    name = reference.get("name") or ""
    data = resolved_pod.config_data.get((kind, name))
    if data is None and not reference.get("optional"):
        raise MissingConfig(kind, name, f'{kind.lower()} "{name}" not found')
    return data or {}


def _read_config_key(kind: str, reference: Mapping[str, Any], resolved_pod: ResolvedPod) -> bytes | None:
    """Return the value of a referenced key; None if it is optional and does not exist."""
    data = require_config_data(kind, reference, resolved_pod)
    key = reference["key"]
    if key not in data and not reference.get("optional"):
        name, namespace = reference.get("name") or "", resolved_pod.pod["metadata"]["namespace"]
        raise MissingConfig(kind, name, f"couldn't find key {key} in {kind} {namespace}/{name}")
    return data.get(key)


def field_ref_value(field_path: str, resolved_pod: ResolvedPod) -> str:
    """Return the value of a `fieldRef`."""
    metadata, spec = resolved_pod.pod["metadata"], resolved_pod.pod["spec"]
    if match := _METADATA_SUBSCRIPT.match(field_path):
        return str((metadata.get(match[1]) or {}).get(match[2], ""))
    if field_path in ("metadata.labels", "metadata.annotations"):
        entries = metadata.get(field_path.partition(".")[2]) or {}
        return "\n".join(f'{key}="{value}"' for key, value in sorted(entries.items()))
    values = {
        "metadata.name": metadata["name"],
        "metadata.namespace": metadata["namespace"],
        "metadata.uid": metadata["uid"],
        "spec.nodeName": spec.get("nodeName", ""),
        "spec.serviceAccountName": spec.get("serviceAccountName", "default"),
        "status.podIP": resolved_pod.address,
        "status.podIPs": resolved_pod.address,
        "status.hostIP": resolved_pod.host_address,
        "status.hostIPs": resolved_pod.host_address,
    }
    if field_path not in values:
        raise UnsupportedPodSpec(f"fieldPath {field_path!r} is not supported: use one of {', '.join(sorted(values))}")
    return str(values[field_path])


def resource_ref_value(reference: Mapping[str, Any], container: ContainerObject, resolved_pod: ResolvedPod) -> str:
    """Return the value of a `resourceFieldRef`, rounded up to units of its divisor."""
    section, _, resource = reference["resource"].partition(".")
    amounts = (container.get("resources") or {}).get(section) or {}
    default = resolved_pod.node_capacity.get(resource, "0") if section == "limits" else "0"
    divisor = parse_quantity(reference.get("divisor") or "1") or 1
    return str(math.ceil(parse_quantity(amounts.get(resource) or default) / divisor))


def referenced_config_objects(pod_spec: Mapping[str, Any]) -> set[tuple[str, str]]:
    """Return kind and name of all ConfigMaps, Secrets and volume claims that a pod references."""
    found: set[tuple[str, str]] = set()
    for container in (*(pod_spec.get("initContainers") or ()), *pod_spec["containers"]):
        for variable in container.get("env") or ():
            source = variable.get("valueFrom") or {}
            found |= _collect_references(source, configMapKeyRef=CONFIG_MAP_KIND, secretKeyRef=SECRET_KIND)
        for source in container.get("envFrom") or ():
            found |= _collect_references(source, configMapRef=CONFIG_MAP_KIND, secretRef=SECRET_KIND)
    return found | mounted_config_objects(pod_spec)


def mounted_config_objects(pod_spec: Mapping[str, Any]) -> set[tuple[str, str]]:
    """Return kind and name of the ConfigMaps, Secrets and volume claims in the volumes of a pod."""
    found: set[tuple[str, str]] = set()
    for volume in pod_spec.get("volumes") or ():
        found |= _collect_references(volume, configMap=CONFIG_MAP_KIND)
        if secret := volume.get("secret"):
            found.add((SECRET_KIND, secret["secretName"]))
        if claim := volume.get("persistentVolumeClaim"):
            found.add((VOLUME_CLAIM_KIND, claim["claimName"]))
        for source in (volume.get("projected") or {}).get("sources") or ():
            found |= _collect_references(source, configMap=CONFIG_MAP_KIND, secret=SECRET_KIND)
    return found


def _collect_references(source: Mapping[str, Any], **kinds_by_field: str) -> set[tuple[str, str]]:
    return {(kind, source[field].get("name") or "") for field, kind in kinds_by_field.items() if source.get(field)}


def _env_from_object(source: Mapping[str, Any], resolved_pod: ResolvedPod) -> dict[str, str]:
    prefix = source.get("prefix") or ""
    data: dict[str, bytes] = {}
    for kind, field in ((CONFIG_MAP_KIND, "configMapRef"), (SECRET_KIND, "secretRef")):
        if reference := source.get(field):
            data.update(require_config_data(kind, reference, resolved_pod))
    return {prefix + key: value.decode(errors="replace") for key, value in data.items()}


def _variable_value(
    variable: Mapping[str, Any], container: ContainerObject, resolved_pod: ResolvedPod, known_variables: Environment
) -> str | None:
    source = variable.get("valueFrom") or {}
    if reference := source.get("fieldRef"):
        return field_ref_value(reference["fieldPath"], resolved_pod)
    if reference := source.get("resourceFieldRef"):
        spec = resolved_pod.pod["spec"]
        containers = (*spec["containers"], *(spec.get("initContainers") or ()))
        referenced = (each for each in containers if each["name"] == reference.get("containerName"))
        return resource_ref_value(reference, next(referenced, container), resolved_pod)
    for kind, field in ((CONFIG_MAP_KIND, "configMapKeyRef"), (SECRET_KIND, "secretKeyRef")):
        if reference := source.get(field):
            value = _read_config_key(kind, reference, resolved_pod)
            return None if value is None else value.decode(errors="replace")
    return expand_variables(variable.get("value") or "", known_variables)


def validate_relative_path(path: str, field: str = "path") -> str:
    """Return a path; raise UnsupportedPodSpec if it is absolute or contains `..` or NUL."""
    if path.startswith("/") or ".." in PurePosixPath(path).parts or "\0" in path:
        raise UnsupportedPodSpec(f"{field} {path!r} must be relative and must not contain '..' or NUL")
    return path
