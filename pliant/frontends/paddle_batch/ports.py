"""Where the members of a PaddleJob listen, and what their pods need for that."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

from pliant.errors import InvalidSpec
from pliant.frontends.paddle_batch.types import ROLES, Intranet
from pliant.frontends.spec.decoding import quote_json
from pliant.model.job import Port

BASE_PORT = 36000
PORTS_PER_REPLICA = 20
"""Ports that a member may use, from its first one on."""
HOST_PORTS_PER_JOB = PORTS_PER_REPLICA * len(ROLES)
"""Ports of a job in the network of nodes: roles do not share theirs, as they may share a node."""
MIN_HOST_PORT, MAX_HOST_PORT = 20_000, 30_000
"""Where those are taken from: below what nodes use for services and for connections that they open."""
HOST_PORT_ANNOTATION = "host-port"
"""The annotation that says where they begin."""


def first_port_by_role(intranet: Intranet | None, annotations: Mapping[str, str], uid: str) -> dict[str, int]:
    """The first port of each role: always the same in networks of their own, each job's own in that of nodes."""
    if intranet is not Intranet.HOST:
        return dict.fromkeys(ROLES, BASE_PORT)
    first = _annotated_host_port(annotations) or _hashed_host_port(uid)
    return {role: first + number * PORTS_PER_REPLICA for number, role in enumerate(ROLES)}


def replica_ports(first_port: int, template_ports: tuple[Port, ...], container: str) -> tuple[Port, ...]:
    """Where members are reached: at their first port, at the launcher's meeting place, and at what they name."""
    ours = (Port("paddle", first_port, container), Port("master", first_port + PORTS_PER_REPLICA - 1, container))
    names, numbers = {port.name for port in ours}, {port.number for port in ours}
    return (*ours, *(port for port in template_ports if port.name not in names and port.number not in numbers))


def with_host_network(pod_spec: Mapping[str, Any], port: int) -> dict[str, Any]:
    """A pod in the network of its node; the scheduler lets nobody come who would listen where it does."""
    leader, *others = pod_spec["containers"]
    ports = leader.get("ports") or []
    if all(each.get("containerPort") != port for each in ports):
        ports = [*ports, {"containerPort": port, "hostPort": port}]
    return {**pod_spec, "hostNetwork": True, "containers": [{**leader, "ports": ports}, *others]}


def _annotated_host_port(annotations: Mapping[str, str]) -> int | None:
    text = annotations.get(HOST_PORT_ANNOTATION, "").strip()
    if not text:
        return None
    if not text.isascii() or not text.isdigit() or not 1024 <= int(text) <= 65_536 - HOST_PORTS_PER_JOB:
        problem = f"must be a port between 1024 and {65_536 - HOST_PORTS_PER_JOB}, got {quote_json(text)}"
        raise InvalidSpec(f"metadata.annotations.{HOST_PORT_ANNOTATION}", problem)
    return int(text)


def _hashed_host_port(uid: str) -> int:
    """Not chance: an operator that has forgotten everything finds the same."""
    drawn = int.from_bytes(blake2b(uid.encode(), digest_size=8).digest())
    return MIN_HOST_PORT + drawn % ((MAX_HOST_PORT - MIN_HOST_PORT) // HOST_PORTS_PER_JOB) * HOST_PORTS_PER_JOB
