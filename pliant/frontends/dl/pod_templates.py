"""Pod templates of kinds made from DLJob, with the ports and volumes that the kind gives to every container."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, TypedDict

from pliant.frontends.spec.pod_templates import PodTemplateInfo
from pliant.model.job import Port

_PORT_NAME_PATTERN = re.compile(r"[a-z0-9]([-a-z0-9]{0,13}[a-z0-9])?")


class ContainerProperties(TypedDict, total=False):
    """What a kind gives to the containers of all its replicas."""

    ports: Mapping[str, int]
    """Numbers by name. The first one is where replicas are reached; a template may give it another number."""
    volumes: Mapping[str, Mapping[str, Any]]
    """Volumes by the path they are mounted at: `{"/dev/shm": {"emptyDir": {"medium": "Memory"}}}`."""


def container_property_errors(properties: ContainerProperties) -> Iterator[str]:
    """What is wrong with the properties of a kind."""
    for name, number in properties.get("ports", {}).items():
        if not _PORT_NAME_PATTERN.fullmatch(name) or not isinstance(number, int) or not 0 < number < 65536:
            yield f"container_properties: port {name!r}: {number!r} is no name of at most 15 letters with a number"
    for path, source in properties.get("volumes", {}).items():
        if not path.startswith("/") or not isinstance(source, Mapping):
            yield f"container_properties: volume {path!r} is no absolute path with a volume source"


def merge_ports(template_info: PodTemplateInfo, properties: ContainerProperties, container: str) -> tuple[Port, ...]:
    """Those of the template, and those of the kind that it does not name."""
    named = {port.name for port in template_info.ports} | {port.number for port in template_info.ports}
    ours = [Port(name, number, container) for name, number in properties.get("ports", {}).items()]
    return (*template_info.ports, *(port for port in ours if port.name not in named and port.number not in named))


def with_container_properties(
    template: Mapping[str, Any], properties: ContainerProperties, ports: tuple[Port, ...]
) -> dict[str, Any]:
    """A template, known to be sound, with what the kind adds; what its author wrote stands."""
    spec = dict(template.get("spec") or {})
    volumes = {
        path: {**source, "name": f"kind-{number}"}
        for number, (path, source) in enumerate(properties.get("volumes", {}).items())
    }
    if volumes:
        spec["volumes"] = [*(spec.get("volumes") or ()), *volumes.values()]
    containers = [_with_volume_mounts(each, volumes) for each in spec["containers"]]
    containers[0] = _with_container_ports(containers[0], ports)
    spec["containers"] = containers
    return {**template, "spec": spec}


def _with_volume_mounts(container: Mapping[str, Any], volumes: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    own = container.get("volumeMounts") or ()
    taken = {mount.get("mountPath") for mount in own}
    mounts = [{"name": each["name"], "mountPath": path} for path, each in volumes.items() if path not in taken]
    return {**container, "volumeMounts": [*own, *mounts]} if mounts else dict(container)


def _with_container_ports(container: Mapping[str, Any], ports: tuple[Port, ...]) -> dict[str, Any]:
    own = container.get("ports") or ()
    taken = {port.get("containerPort") for port in own}
    more = [
        {"name": port.name, "containerPort": port.number}
        for port in ports
        if port.container == container.get("name") and port.number not in taken
    ]
    return {**container, "ports": [*own, *more]} if more else dict(container)
