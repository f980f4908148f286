"""Inspect pod templates: main containers, published ports, and changes while a job is active."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from hashlib import blake2b
from typing import Any

import msgspec
from msgspec import Struct

from pliant.errors import InvalidSpec
from pliant.frontends.spec.decoding import decode
from pliant.frontends.spec.template_schema import check_template_types
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
    """The template fields that the operator reads or extends, so that their types are checked early."""

    spec: _TemplatePodSpec = _TemplatePodSpec()
    metadata: _TemplateMetadata = _TemplateMetadata()


class PodTemplateInfo(Struct, frozen=True, kw_only=True):
    """The main containers of a pod (empty: all containers) and the ports that services publish."""

    main_containers: frozenset[str]
    ports: tuple[Port, ...]


def inspect_pod_template(template: Mapping[str, Any], path: str, main_prefix: str) -> PodTemplateInfo:
    """Decode a template and return its main containers and ports, which are marked by a name prefix."""
    containers = decode(_PodTemplate, template, path).spec.containers
    if not containers:
        raise InvalidSpec(f"{path}.spec.containers", "needs at least one container")
    check_template_types(template, path)
    main_names = frozenset(container.name for container in containers if container.name.startswith(main_prefix))
    main = [container for container in containers if not main_names or container.name in main_names]
    ports = [Port(port.name, port.container_port, each.name) for each in main for port in each.ports]
    marked = [port for port in ports if port.name.startswith(main_prefix)] if main_names else []
    unique: dict[int, Port] = {}
    for port in marked or ports:
        unique.setdefault(port.number, port)
    return PodTemplateInfo(main_containers=main_names, ports=tuple(unique.values()))


def hash_template(template: Mapping[str, Any]) -> str:
    """Return a short hash of a template that does not depend on the order of its keys."""
    return blake2b(msgspec.json.encode(template, order="deterministic"), digest_size=8).hexdigest()


def check_templates_unchanged(
    groups: Iterable[ReplicaGroup], state: EngineState | None, groups_path: str, run_policy_path: str = "spec"
) -> None:
    """Raise InvalidSpec if the groups or templates of an active job changed: its replicas would differ.

    `groups_path` is the field that holds the groups, `run_policy_path` the one that holds `suspend`.
    """
    active = active_template_hashes(state)
    if not active:
        return
    advice = suspend_advice(run_policy_path)
    current = {group.name: group.template_hash for group in groups}
    for name in [*active, *current]:
        if name not in current:
            raise InvalidSpec(f"{groups_path}.{name}", f"cannot be removed {advice}")
        if name not in active:
            raise InvalidSpec(f"{groups_path}.{name}", f"cannot be added {advice}")
        # Earlier versions stored the hash of the template alone.
        if active[name] not in (current[name], current[name].partition(".")[0]):
            raise InvalidSpec(f"{groups_path}.{name}.template", f"cannot change {advice}")


def active_template_hashes(state: EngineState | None) -> dict[str, str]:
    """Return the template hash of each group whose pods exist; empty if the job may be edited freely."""
    if state is None or state.outcome is not None or state.phase is JobPhase.SUSPENDED or state.phase.is_final:
        return {}
    return {name: each.template_hash for name, each in state.groups.items() if each.template_hash}


def suspend_advice(run_policy_path: str) -> str:
    """Return the end of the error message for an edit that requires a suspended job."""
    return f"while the job is active: set {run_policy_path}.suspend first, or undo the edit"
