"""What a front end must know about a pod template: which containers speak for the pod, and where they listen."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from pliant.errors import InvalidSpec
from pliant.frontends.reading import read
from pliant.model.job import Port


class _ContainerPort(Struct, frozen=True, rename="camel"):
    container_port: int
    name: str = ""


class _Container(Struct, frozen=True):
    name: str
    ports: list[_ContainerPort] = []


class _PodSpec(Struct, frozen=True):
    containers: list[_Container] = []


class _Template(Struct, frozen=True):
    spec: _PodSpec = _PodSpec()


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
