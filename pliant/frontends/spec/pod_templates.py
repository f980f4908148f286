"""What a front end must know about a pod template: which containers speak for the pod, and where they listen."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from hashlib import blake2b
from typing import Any

import msgspec
from msgspec import Struct

from pliant.errors import InvalidSpec
from pliant.frontends.spec.decoding import decode
from pliant.model.job import Port, ReplicaGroup
from pliant.model.state import EngineState, JobPhase


class _NamedItem(Struct, frozen=True):
    name: str = ""


class _VolumeMountPath(Struct, frozen=True, rename="camel"):
    mount_path: str = ""


class _TemplatePort(Struct, frozen=True, rename="camel"):
    container_port: int
    name: str = ""


class _TemplateContainer(Struct, frozen=True, rename="camel"):
    name: str
    ports: list[_TemplatePort] = []
    env: list[_NamedItem] = []
    volume_mounts: list[_VolumeMountPath] = []


class _TemplateNodeAffinity(Struct, frozen=True, rename="camel"):
    preferred_during_scheduling_ignored_during_execution: list[dict[str, Any]] = []


class _TemplateAffinity(Struct, frozen=True, rename="camel"):
    node_affinity: _TemplateNodeAffinity = _TemplateNodeAffinity()


class _TemplatePodSpec(Struct, frozen=True, rename="camel"):
    containers: list[_TemplateContainer] = []
    init_containers: list[_TemplateContainer] = []
    volumes: list[_NamedItem] = []
    affinity: _TemplateAffinity = _TemplateAffinity()
    restart_policy: str = ""
    scheduler_name: str = ""
    priority_class_name: str = ""
    dns_policy: str = ""
    host_network: bool = False


class _TemplateMetadata(Struct, frozen=True):
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}


class _PodTemplate(Struct, frozen=True):
    """All that is looked at, or built upon, when pods are made."""

    spec: _TemplatePodSpec = _TemplatePodSpec()
    metadata: _TemplateMetadata = _TemplateMetadata()


class PodTemplateInfo(Struct, frozen=True, kw_only=True):
    """The speakers of a pod (none named: all of its containers) and the ports that members are reached on."""

    main_containers: frozenset[str]
    ports: tuple[Port, ...]


def inspect_pod_template(template: Mapping[str, Any], path: str, main_prefix: str) -> PodTemplateInfo:
    """Read a template in which containers and ports may be singled out by a prefix of their names."""
    containers = decode(_PodTemplate, template, path).spec.containers
    if not containers:
        raise InvalidSpec(f"{path}.spec.containers", "needs at least one container")
    counted = frozenset(container.name for container in containers if container.name.startswith(main_prefix))
    speakers = [container for container in containers if not counted or container.name in counted]
    every = [Port(port.name, port.container_port, each.name) for each in speakers for port in each.ports]
    named = [port for port in every if port.name.startswith(main_prefix)] if counted else []
    unique: dict[int, Port] = {}
    for port in named or every:
        unique.setdefault(port.number, port)
    return PodTemplateInfo(main_containers=counted, ports=tuple(unique.values()))


def hash_template(template: Mapping[str, Any]) -> str:
    """A short word that tells one template from another, whatever the order of its keys."""
    return blake2b(msgspec.json.encode(template, order="deterministic"), digest_size=8).hexdigest()


def check_templates_unchanged(
    groups: Iterable[ReplicaGroup], state: EngineState | None, groups_path: str, run_policy_path: str = "spec"
) -> None:
    """Raise InvalidSpec if a job under way got other groups or templates: its members would no longer be alike.

    `path` is where the groups are written, `policy` where `suspend` is.
    """
    if state is None or state.outcome is not None or state.phase is JobPhase.SUSPENDED or state.phase.is_final:
        return
    made_from = {name: memory.template_hash for name, memory in state.groups.items() if memory.template_hash}
    if not made_from:
        return
    advice = f"while the job is under way: set {run_policy_path}.suspend first, or undo the edit"
    present = {group.name: group.template_hash for group in groups}
    for name in [*made_from, *present]:
        if name not in present:
            raise InvalidSpec(f"{groups_path}.{name}", f"cannot be removed {advice}")
        if name not in made_from:
            raise InvalidSpec(f"{groups_path}.{name}", f"cannot be added {advice}")
        if made_from[name] != present[name]:
            raise InvalidSpec(f"{groups_path}.{name}.template", f"cannot change {advice}")
