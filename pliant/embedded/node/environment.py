"""The environment and command line of a container, by the rules of Kubernetes."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from pliant.errors import NotYet, UserError
from pliant.kube.amounts import amount

CONFIG_MAP = "ConfigMap"
CLAIM = "PersistentVolumeClaim"
UID = "uid"
"""All that is to know of a claim."""
SECRET = "Secret"  # noqa: S105 - the name of a kind
_REFERENCE: Final = re.compile(r"\$(?:\$|\(([^)]*)\))")
_SUBSCRIPT: Final = re.compile(r"metadata\.(labels|annotations)\['(.+)'\]\Z")

Container = Mapping[str, Any]


class Missing(NotYet):
    """A ConfigMap or Secret that a pod needs is not there, or lacks a key; it may come."""

    def __init__(self, kind: str, name: str, problem: str) -> None:
        super().__init__(problem)
        self.kind = kind
        self.name = name


class Unusable(UserError):
    """A part of a pod that cannot be honoured here; the message says what to change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodFacts:
    """A pod and what became of it: where it runs, and the configuration found for it."""

    pod: Mapping[str, Any]
    address: str
    host_address: str
    capacity: Mapping[str, str]
    """What its node has to give."""
    found: Mapping[tuple[str, str], Mapping[str, bytes]]
    """Contents of the ConfigMaps and Secrets it names that exist, by kind and name."""

    def with_found(self, found: Mapping[tuple[str, str], Mapping[str, bytes]]) -> PodFacts:
        """The same pod with newer configuration."""
        return replace(self, found=found)


def environment(container: Container, facts: PodFacts, base: Mapping[str, str]) -> dict[str, str]:
    """All variables of a container: `base`, then those from whole objects, then its own, later ones winning."""
    base = _with_own_tools(container, base)
    result = dict(base)
    for source in container.get("envFrom") or ():
        result.update(_from_object(source, facts))
    own: dict[str, str] = {}
    for variable in container.get("env") or ():
        value = _value(variable, container, facts, {**base, **own})
        if value is not None:
            own[variable["name"]] = value
    return result | own


def _with_own_tools(container: Container, base: Mapping[str, str]) -> Mapping[str, str]:
    """The variables of a container whose image is Pliant's own: what that holds is here, and found first."""
    name = (container.get("image") or "").rpartition("/")[2].partition("@")[0].partition(":")[0]
    if name != "pliant":
        return base
    return {**base, "PATH": ":".join(filter(None, (str(Path(sys.executable).parent), base.get("PATH"))))}


def command_line(container: Container, variables: Mapping[str, str]) -> list[str]:
    """The command and its arguments with `$(VAR)` replaced."""
    words = [*(container.get("command") or ()), *(container.get("args") or ())]
    return [expand(word, variables) for word in words]


def expand(text: str, variables: Mapping[str, str]) -> str:
    """Replace `$(VAR)` where VAR is known; `$$` stands for one dollar sign."""

    def replacement(match: re.Match[str]) -> str:
        name = match[1]
        return "$" if name is None else variables.get(name, match[0])

    return _REFERENCE.sub(replacement, text)


def content(kind: str, reference: Mapping[str, Any], facts: PodFacts) -> Mapping[str, bytes]:
    """What an object holds; nothing when it is absent and may be."""
    name = reference.get("name") or ""
    held = facts.found.get((kind, name))
    if held is None and not reference.get("optional"):
        raise Missing(kind, name, f'{kind.lower()} "{name}" not found')
    return held or {}


def one_key(kind: str, reference: Mapping[str, Any], facts: PodFacts) -> bytes | None:
    """One entry of an object; None when it is absent and may be."""
    held = content(kind, reference, facts)
    key = reference["key"]
    if key not in held and not reference.get("optional"):
        name, namespace = reference.get("name") or "", facts.pod["metadata"]["namespace"]
        raise Missing(kind, name, f"couldn't find key {key} in {kind} {namespace}/{name}")
    return held.get(key)


def field_value(path: str, facts: PodFacts) -> str:
    """A field of the pod as text."""
    metadata, spec = facts.pod["metadata"], facts.pod["spec"]
    if match := _SUBSCRIPT.match(path):
        return str((metadata.get(match[1]) or {}).get(match[2], ""))
    if path in ("metadata.labels", "metadata.annotations"):
        entries = metadata.get(path.partition(".")[2]) or {}
        return "\n".join(f'{key}="{value}"' for key, value in sorted(entries.items()))
    simple = {
        "metadata.name": metadata["name"],
        "metadata.namespace": metadata["namespace"],
        "metadata.uid": metadata["uid"],
        "spec.nodeName": spec.get("nodeName", ""),
        "spec.serviceAccountName": spec.get("serviceAccountName", "default"),
        "status.podIP": facts.address,
        "status.podIPs": facts.address,
        "status.hostIP": facts.host_address,
        "status.hostIPs": facts.host_address,
    }
    if path not in simple:
        raise Unusable(f"fieldPath {path!r} is not one that a pod can be told: {', '.join(sorted(simple))}")
    return str(simple[path])


def resource_value(reference: Mapping[str, Any], container: Container, facts: PodFacts) -> str:
    """An amount that a container asks for or may use, in whole units of the divisor."""
    part, _, resource = reference["resource"].partition(".")
    given = (container.get("resources") or {}).get(part) or {}
    has = given.get(resource) or (facts.capacity.get(resource, "0") if part == "limits" else "0")
    divisor = reference.get("divisor") or "1"
    return str(math.ceil(amount(has) / (amount(divisor) or 1)))


def references(spec: Mapping[str, Any]) -> set[tuple[str, str]]:
    """The ConfigMaps, Secrets and volume claims that a pod names anywhere, by kind and name."""
    found: set[tuple[str, str]] = set()
    for container in (*(spec.get("initContainers") or ()), *spec["containers"]):
        for variable in container.get("env") or ():
            source = variable.get("valueFrom") or {}
            found |= _named(source, configMapKeyRef=CONFIG_MAP, secretKeyRef=SECRET)
        for source in container.get("envFrom") or ():
            found |= _named(source, configMapRef=CONFIG_MAP, secretRef=SECRET)
    return found | mounted(spec)


def mounted(spec: Mapping[str, Any]) -> set[tuple[str, str]]:
    """Those of them that its volumes are made of."""
    found: set[tuple[str, str]] = set()
    for volume in spec.get("volumes") or ():
        found |= _named(volume, configMap=CONFIG_MAP)
        if secret := volume.get("secret"):
            found.add((SECRET, secret["secretName"]))
        if claim := volume.get("persistentVolumeClaim"):
            found.add((CLAIM, claim["claimName"]))
        for source in (volume.get("projected") or {}).get("sources") or ():
            found |= _named(source, configMap=CONFIG_MAP, secret=SECRET)
    return found


def _named(source: Mapping[str, Any], **fields: str) -> set[tuple[str, str]]:
    return {(kind, source[field].get("name") or "") for field, kind in fields.items() if source.get(field)}


def _from_object(source: Mapping[str, Any], facts: PodFacts) -> dict[str, str]:
    prefix = source.get("prefix") or ""
    held: dict[str, bytes] = {}
    if reference := source.get("configMapRef"):
        held.update(content(CONFIG_MAP, reference, facts))
    if reference := source.get("secretRef"):
        held.update(content(SECRET, reference, facts))
    return {prefix + key: _text(value) for key, value in held.items()}


def _value(
    variable: Mapping[str, Any], container: Container, facts: PodFacts, known: Mapping[str, str]
) -> str | None:
    source = variable.get("valueFrom") or {}
    if reference := source.get("fieldRef"):
        return field_value(reference["fieldPath"], facts)
    if reference := source.get("resourceFieldRef"):
        return resource_value(reference, _named_container(reference, container, facts), facts)
    for kind, field in ((CONFIG_MAP, "configMapKeyRef"), (SECRET, "secretKeyRef")):
        if reference := source.get(field):
            held = one_key(kind, reference, facts)
            return None if held is None else _text(held)
    return expand(variable.get("value") or "", known)


def _named_container(reference: Mapping[str, Any], own: Container, facts: PodFacts) -> Container:
    name = reference.get("containerName")
    spec = facts.pod["spec"]
    every: Sequence[Container] = (*spec["containers"], *(spec.get("initContainers") or ()))
    return next((each for each in every if each["name"] == name), own)


def _text(value: bytes) -> str:
    return value.decode(errors="replace")
