"""What a front end must know about a pod template: which containers speak for the pod, and where they listen."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from hashlib import blake2b
from typing import Any

import msgspec
from msgspec import Struct

from pliant.errors import InvalidSpec
from pliant.frontends.reading import read
from pliant.model.job import Group, Port
from pliant.model.state import EngineState, Phase


class _Named(Struct, frozen=True):
    name: str = ""


class _Mount(Struct, frozen=True, rename="camel"):
    mount_path: str = ""


class _ContainerPort(Struct, frozen=True, rename="camel"):
    container_port: int
    name: str = ""


class _Container(Struct, frozen=True, rename="camel"):
    name: str
    ports: list[_ContainerPort] = []
    env: list[_Named] = []
    volume_mounts: list[_Mount] = []


class _NodeAffinity(Struct, frozen=True, rename="camel"):
    preferred_during_scheduling_ignored_during_execution: list[dict[str, Any]] = []


class _Affinity(Struct, frozen=True, rename="camel"):
    node_affinity: _NodeAffinity = _NodeAffinity()


class _PodSpec(Struct, frozen=True, rename="camel"):
    containers: list[_Container] = []
    init_containers: list[_Container] = []
    volumes: list[_Named] = []
    affinity: _Affinity = _Affinity()
    restart_policy: str = ""
    scheduler_name: str = ""
    priority_class_name: str = ""
    dns_policy: str = ""
    host_network: bool = False


class _Metadata(Struct, frozen=True):
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}


class _Template(Struct, frozen=True):
    """All that is looked at, or built upon, when pods are made."""

    spec: _PodSpec = _PodSpec()
    metadata: _Metadata = _Metadata()


class TemplateFacts(Struct, frozen=True, kw_only=True):
    """The speakers of a pod (none named: all of its containers) and the ports that members are reached on."""

    counted: frozenset[str]
    ports: tuple[Port, ...]


def template_facts(template: Mapping[str, Any], path: str, prefix: str) -> TemplateFacts:
    """Read a template in which containers and ports may be singled out by a prefix of their names."""
    containers = read(_Template, template, path).spec.containers
    if not containers:
        raise InvalidSpec(f"{path}.spec.containers", "needs at least one container")
    counted = frozenset(container.name for container in containers if container.name.startswith(prefix))
    speakers = [container for container in containers if not counted or container.name in counted]
    every = [Port(port.name, port.container_port, each.name) for each in speakers for port in each.ports]
    named = [port for port in every if port.name.startswith(prefix)] if counted else []
    unique: dict[int, Port] = {}
    for port in named or every:
        unique.setdefault(port.number, port)
    return TemplateFacts(counted=counted, ports=tuple(unique.values()))


def fingerprint(template: Mapping[str, Any]) -> str:
    """A short word that tells one template from another, whatever the order of its keys."""
    return blake2b(msgspec.json.encode(template, order="deterministic"), digest_size=8).hexdigest()


def check_unchanged(groups: Iterable[Group], state: EngineState | None, path: str, policy: str = "spec") -> None:
    """Raise InvalidSpec if a job under way got other groups or templates: its members would no longer be alike.

    `path` is where the groups are written, `policy` where `suspend` is.
    """
    if state is None or state.verdict is not None or state.phase is Phase.SUSPENDED or state.phase.is_final:
        return
    made_from = {name: memory.template for name, memory in state.groups.items() if memory.template}
    if not made_from:
        return
    advice = f"while the job is under way: set {policy}.suspend first, or undo the edit"
    present = {group.name: group.fingerprint for group in groups}
    for name in [*made_from, *present]:
        if name not in present:
            raise InvalidSpec(f"{path}.{name}", f"cannot be removed {advice}")
        if name not in made_from:
            raise InvalidSpec(f"{path}.{name}", f"cannot be added {advice}")
        if made_from[name] != present[name]:
            raise InvalidSpec(f"{path}.{name}.template", f"cannot change {advice}")
