"""The environment and command line of a container, by the rules of Kubernetes."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from pliant.errors import RetryLater, UserError
from pliant.kube.quantity import parse_quantity

CONFIG_MAP = "ConfigMap"
VOLUME_CLAIM = "PersistentVolumeClaim"
CLAIM_UID_KEY = "uid"
"""All that is to know of a claim."""
SECRET = "Secret"  # noqa: S105 - the name of a kind
_VARIABLE_REFERENCE: Final = re.compile(r"\$(?:\$|\(([^)]*)\))")
_METADATA_SUBSCRIPT: Final = re.compile(r"metadata\.(labels|annotations)\['(.+)'\]\Z")

ContainerObject = Mapping[str, Any]


class MissingConfig(RetryLater):
    """A ConfigMap or Secret that a pod needs is not there, or lacks a key; it may come."""

    def __init__(self, kind: str, name: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind
        self.name = name


class UnsupportedPodSpec(UserError):
    """A part of a pod that cannot be honoured here; the message says what to change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedPod:
    """A pod and what became of it: where it runs, and the configuration found for it."""

    pod: Mapping[str, Any]
    address: str
    host_address: str
    node_capacity: Mapping[str, str]
    """What its node has to give."""
    config_data: Mapping[tuple[str, str], Mapping[str, bytes]]
    """Contents of the ConfigMaps and Secrets it names that exist, by kind and name."""

    def with_config_data(self, config_data: Mapping[tuple[str, str], Mapping[str, bytes]]) -> ResolvedPod:
        """The same pod with newer configuration."""
        return replace(self, config_data=config_data)


def build_environment(
    container: ContainerObject, resolved_pod: ResolvedPod, base_env: Mapping[str, str]
) -> dict[str, str]:
    """All variables of a container: `base`, then those from whole objects, then its own, later ones winning."""
    base_env = _with_pliant_on_path(container, base_env)
    result = dict(base_env)
    for source in container.get("envFrom") or ():
        result.update(_env_from_object(source, resolved_pod))
    own: dict[str, str] = {}
    for variable in container.get("env") or ():
        value = _variable_value(variable, container, resolved_pod, {**base_env, **own})
        if value is not None:
            own[variable["name"]] = value
    return result | own


def _with_pliant_on_path(container: ContainerObject, base_env: Mapping[str, str]) -> Mapping[str, str]:
    """The variables of a container whose image is Pliant's own: what that holds is here, and found first."""
    name = (container.get("image") or "").rpartition("/")[2].partition("@")[0].partition(":")[0]
    if name != "pliant":
        return base_env
    return {**base_env, "PATH": ":".join(filter(None, (str(Path(sys.executable).parent), base_env.get("PATH"))))}


def build_command_line(container: ContainerObject, variables: Mapping[str, str]) -> list[str]:
    """The command and its arguments with `$(VAR)` replaced."""
    words = [*(container.get("command") or ()), *(container.get("args") or ())]
    return [expand_variables(word, variables) for word in words]


def expand_variables(text: str, variables: Mapping[str, str]) -> str:
    """Replace `$(VAR)` where VAR is known; `$$` stands for one dollar sign."""

    def replacement(match: re.Match[str]) -> str:
        name = match[1]
        return "$" if name is None else variables.get(name, match[0])

    return _VARIABLE_REFERENCE.sub(replacement, text)


def read_config_data(kind: str, reference: Mapping[str, Any], resolved_pod: ResolvedPod) -> Mapping[str, bytes]:
    """What an object holds; nothing when it is absent and may be."""
    name = reference.get("name") or ""
    held = resolved_pod.config_data.get((kind, name))
    if held is None and not reference.get("optional"):
        raise MissingConfig(kind, name, f'{kind.lower()} "{name}" not found')
    return held or {}


def read_config_key(kind: str, reference: Mapping[str, Any], resolved_pod: ResolvedPod) -> bytes | None:
    """One entry of an object; None when it is absent and may be."""
    held = read_config_data(kind, reference, resolved_pod)
    key = reference["key"]
    if key not in held and not reference.get("optional"):
        name, namespace = reference.get("name") or "", resolved_pod.pod["metadata"]["namespace"]
        raise MissingConfig(kind, name, f"couldn't find key {key} in {kind} {namespace}/{name}")
    return held.get(key)


def field_ref_value(field_path: str, resolved_pod: ResolvedPod) -> str:
    """A field of the pod as text."""
    metadata, spec = resolved_pod.pod["metadata"], resolved_pod.pod["spec"]
    if match := _METADATA_SUBSCRIPT.match(field_path):
        return str((metadata.get(match[1]) or {}).get(match[2], ""))
    if field_path in ("metadata.labels", "metadata.annotations"):
        entries = metadata.get(field_path.partition(".")[2]) or {}
        return "\n".join(f'{key}="{value}"' for key, value in sorted(entries.items()))
    simple = {
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
    if field_path not in simple:
        raise UnsupportedPodSpec(
            f"fieldPath {field_path!r} is not one that a pod can be told: {', '.join(sorted(simple))}"
        )
    return str(simple[field_path])


def resource_ref_value(reference: Mapping[str, Any], container: ContainerObject, resolved_pod: ResolvedPod) -> str:
    """An amount that a container asks for or may use, in whole units of the divisor."""
    part, _, resource = reference["resource"].partition(".")
    given = (container.get("resources") or {}).get(part) or {}
    has = given.get(resource) or (resolved_pod.node_capacity.get(resource, "0") if part == "limits" else "0")
    divisor = reference.get("divisor") or "1"
    return str(math.ceil(parse_quantity(has) / (parse_quantity(divisor) or 1)))


def referenced_objects(pod_spec: Mapping[str, Any]) -> set[tuple[str, str]]:
    """The ConfigMaps, Secrets and volume claims that a pod names anywhere, by kind and name."""
    found: set[tuple[str, str]] = set()
    for container in (*(pod_spec.get("initContainers") or ()), *pod_spec["containers"]):
        for variable in container.get("env") or ():
            source = variable.get("valueFrom") or {}
            found |= _collect_references(source, configMapKeyRef=CONFIG_MAP, secretKeyRef=SECRET)
        for source in container.get("envFrom") or ():
            found |= _collect_references(source, configMapRef=CONFIG_MAP, secretRef=SECRET)
    return found | mounted_objects(pod_spec)


def mounted_objects(pod_spec: Mapping[str, Any]) -> set[tuple[str, str]]:
    """Those of them that its volumes are made of."""
    found: set[tuple[str, str]] = set()
    for volume in pod_spec.get("volumes") or ():
        found |= _collect_references(volume, configMap=CONFIG_MAP)
        if secret := volume.get("secret"):
            found.add((SECRET, secret["secretName"]))
        if claim := volume.get("persistentVolumeClaim"):
            found.add((VOLUME_CLAIM, claim["claimName"]))
        for source in (volume.get("projected") or {}).get("sources") or ():
            found |= _collect_references(source, configMap=CONFIG_MAP, secret=SECRET)
    return found


def _collect_references(source: Mapping[str, Any], **kinds_by_field: str) -> set[tuple[str, str]]:
    return {(kind, source[field].get("name") or "") for field, kind in kinds_by_field.items() if source.get(field)}


def _env_from_object(source: Mapping[str, Any], resolved_pod: ResolvedPod) -> dict[str, str]:
    prefix = source.get("prefix") or ""
    held: dict[str, bytes] = {}
    if reference := source.get("configMapRef"):
        held.update(read_config_data(CONFIG_MAP, reference, resolved_pod))
    if reference := source.get("secretRef"):
        held.update(read_config_data(SECRET, reference, resolved_pod))
    return {prefix + key: _decode_text(value) for key, value in held.items()}


def _variable_value(
    variable: Mapping[str, Any],
    container: ContainerObject,
    resolved_pod: ResolvedPod,
    known_variables: Mapping[str, str],
) -> str | None:
    source = variable.get("valueFrom") or {}
    if reference := source.get("fieldRef"):
        return field_ref_value(reference["fieldPath"], resolved_pod)
    if reference := source.get("resourceFieldRef"):
        return resource_ref_value(reference, _referenced_container(reference, container, resolved_pod), resolved_pod)
    for kind, field in ((CONFIG_MAP, "configMapKeyRef"), (SECRET, "secretKeyRef")):
        if reference := source.get(field):
            held = read_config_key(kind, reference, resolved_pod)
            return None if held is None else _decode_text(held)
    return expand_variables(variable.get("value") or "", known_variables)


def _referenced_container(
    reference: Mapping[str, Any], default: ContainerObject, resolved_pod: ResolvedPod
) -> ContainerObject:
    name = reference.get("containerName")
    spec = resolved_pod.pod["spec"]
    every: Sequence[ContainerObject] = (*spec["containers"], *(spec.get("initContainers") or ()))
    return next((each for each in every if each["name"] == name), default)


def _decode_text(value: bytes) -> str:
    return value.decode(errors="replace")
