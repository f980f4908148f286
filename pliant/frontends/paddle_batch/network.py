"""Where the members of a PaddleJob listen, and what their pods need for that."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

from pliant.errors import InvalidSpec
from pliant.frontends.paddle_batch.types import ROLES, Intranet
from pliant.frontends.reading import quoted
from pliant.model.job import Port

BASE_PORT = 36000
EACH = 20
"""Ports that a member may use, from its first one on."""
RESERVED = EACH * len(ROLES)
"""Ports of a job in the network of nodes: roles do not share theirs, as they may share a node."""
LOWEST, HIGHEST = 20_000, 30_000
"""Where those are taken from: below what nodes use for services and for connections that they open."""
HOST_PORT = "host-port"
"""The annotation that says where they begin."""


def first_ports(intranet: Intranet | None, annotations: Mapping[str, str], uid: str) -> dict[str, int]:
    """The first port of each role: always the same in networks of their own, each job's own in that of nodes."""
    if intranet is not Intranet.HOST:
        return dict.fromkeys(ROLES, BASE_PORT)
    first = _written(annotations) or _drawn(uid)
    return {role: first + number * EACH for number, role in enumerate(ROLES)}


def ports_of(first: int, own: tuple[Port, ...], container: str) -> tuple[Port, ...]:
    """Where members are reached: at their first port, at the launcher's meeting place, and at what they name."""
    ours = (Port("paddle", first, container), Port("master", first + EACH - 1, container))
    names, numbers = {port.name for port in ours}, {port.number for port in ours}
    return (*ours, *(port for port in own if port.name not in names and port.number not in numbers))


def on_the_host(spec: Mapping[str, Any], port: int) -> dict[str, Any]:
    """A pod in the network of its node; the scheduler lets nobody come who would listen where it does."""
    leader, *others = spec["containers"]
    ports = leader.get("ports") or []
    if all(each.get("containerPort") != port for each in ports):
        ports = [*ports, {"containerPort": port, "hostPort": port}]
    return {**spec, "hostNetwork": True, "containers": [{**leader, "ports": ports}, *others]}


def _written(annotations: Mapping[str, str]) -> int | None:
    text = annotations.get(HOST_PORT, "").strip()
    if not text:
        return None
    if not text.isascii() or not text.isdigit() or not 1024 <= int(text) <= 65_536 - RESERVED:
        problem = f"must be a port between 1024 and {65_536 - RESERVED}, got {quoted(text)}"
        raise InvalidSpec(f"metadata.annotations.{HOST_PORT}", problem)
    return int(text)


def _drawn(uid: str) -> int:
    """Not chance: an operator that has forgotten everything finds the same."""
    drawn = int.from_bytes(blake2b(uid.encode(), digest_size=8).digest())
    return LOWEST + drawn % ((HIGHEST - LOWEST) // RESERVED) * RESERVED
