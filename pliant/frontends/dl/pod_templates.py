"""Add the ports and volumes of a DLJob kind to pod templates."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypedDict

from pliant.frontends.spec.pod_templates import PodTemplateInfo
from pliant.model.job import Port

_PORT_NAME_PATTERN = re.compile(r"[a-z0-9]([-a-z0-9]{0,13}[a-z0-9])?")


class ContainerProperties(TypedDict, total=False):
    """The ports and volumes that a kind adds to all its replicas."""

    ports: Mapping[str, int] | Sequence[int]
    """Port numbers by name, or a list of numbers. The first is the default port; a template may change its number."""
    volumes: Mapping[str, Mapping[str, Any]]
    """Volume sources by mount path: `{"/dev/shm": {"emptyDir": {"medium": "Memory"}}}`."""


def container_property_errors(properties: Any) -> Iterator[str]:
    """Yield the errors in the container properties of a kind, which may be anything."""
    if not isinstance(properties, Mapping):
        yield f"container_properties must be a mapping with ports and volumes, got {properties!r}"
        return
    ports, volumes = properties.get("ports", {}), properties.get("volumes", {})
    if not isinstance(ports, Mapping | list | tuple):
        yield f"container_properties: ports must be numbers by name such as {{'ring': 7000}}, or a list, got {ports!r}"
        return
    if not isinstance(volumes, Mapping):
        example = "{'/dev/shm': {'emptyDir': {}}}"
        yield f"container_properties: volumes must be volume sources by mount path such as {example}, got {volumes!r}"
        return
    for name, number in named_ports(ContainerProperties(ports=ports)).items():
        if not _PORT_NAME_PATTERN.fullmatch(name) or not isinstance(number, int) or not 0 < number < 65536:
            yield f"container_properties: port {name!r}: {number!r} must be a port name and a port number"
    for path, source in volumes.items():
        if not isinstance(path, str) or not path.startswith("/") or not isinstance(source, Mapping):
            yield f"container_properties: volume {path!r} must be an absolute path and a volume source"


def named_ports(properties: ContainerProperties) -> Mapping[str, int]:
    """Return the ports by name; those of a list are named after their numbers."""
    ports = properties.get("ports", {})
    return ports if isinstance(ports, Mapping) else {f"port-{number}": number for number in ports}


def merge_ports(template_info: PodTemplateInfo, properties: ContainerProperties, container: str) -> tuple[Port, ...]:
    """Return the ports of the template, and those of the kind that it does not define."""
    used = {port.name for port in template_info.ports} | {port.number for port in template_info.ports}
    kind_ports = [Port(name, number, container) for name, number in named_ports(properties).items()]
    return (*template_info.ports, *(port for port in kind_ports if port.name not in used and port.number not in used))


def with_container_properties(
    template: Mapping[str, Any], properties: ContainerProperties, ports: tuple[Port, ...]
) -> dict[str, Any]:
    """Return a valid template with the volumes and ports of the kind; those of the template take precedence."""
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
    used = {mount.get("mountPath") for mount in own}
    mounts = [{"name": each["name"], "mountPath": path} for path, each in volumes.items() if path not in used]
    return {**container, "volumeMounts": [*own, *mounts]} if mounts else dict(container)


def _with_container_ports(container: Mapping[str, Any], ports: tuple[Port, ...]) -> dict[str, Any]:
    own = container.get("ports") or ()
    used = {port.get("containerPort") for port in own}
    added = [
        {"name": port.name, "containerPort": port.number}
        for port in ports
        if port.container == container.get("name") and port.number not in used
    ]
    return {**container, "ports": [*own, *added]} if added else dict(container)
