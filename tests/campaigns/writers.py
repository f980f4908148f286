"""Clients that write without pause, and remember what was acknowledged."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field
from pathlib import Path

from pliant.errors import ApiError
from pliant.kube.client import KubeClient
from pliant.kube.client_config import create_transport
from pliant.kube.resources import CONFIG_MAPS
from pliant.runtime.clock import SystemClock

MAX_OBJECTS = 12
"""How many objects a client keeps, so that a campaign of any length checks all of them each time."""


@dataclass
class Writer:
    """One client with objects of its own; the value of each is the number of the write that set it."""

    number: int
    rng: random.Random
    acknowledged: dict[str, int] = field(default_factory=dict)
    pending: tuple[str, int | None] | None = None
    """The write that was not answered: what an object may be instead; None if it may be gone."""
    writes: int = 0

    async def write_until_cut_off(self, kubeconfig: Path) -> None:
        transport = create_transport(kubeconfig, None, SystemClock().now)
        try:
            client = KubeClient(transport)
            while True:
                await self._write(client)
        except ApiError:
            return
        finally:
            await transport.aclose()

    async def _write(self, client: KubeClient) -> None:
        self.writes += 1
        value, names = self.writes, sorted(self.acknowledged)
        name, act = f"w{self.number}-{value}", "create"
        if names and self.rng.random() < 0.6:
            name, act = self.rng.choice(names), "patch"
        if len(names) >= MAX_OBJECTS and act == "create":
            name, act = names[0], "delete"
        self.pending = name, None if act == "delete" else value
        data = {"data": {"n": str(value)}}
        if act == "create":
            body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, **data}
            await client.create(CONFIG_MAPS, "default", body)
        elif act == "patch":
            await client.patch(CONFIG_MAPS, "default", name, data)
        else:
            await client.delete(CONFIG_MAPS, "default", name)
        self._accept(*self.pending)

    def _accept(self, name: str, value: int | None) -> None:
        if value is None:
            self.acknowledged.pop(name, None)
        else:
            self.acknowledged[name] = value
        self.pending = None

    def find_lost(self, found: dict[str, int]) -> list[str]:
        """Compare what is stored with what was acknowledged; return what is lost, and go on from what is there."""
        mine = {name: value for name, value in found.items() if name.startswith(f"w{self.number}-")}
        allowed: dict[str, set[int | None]] = {name: {value} for name, value in self.acknowledged.items()}
        if self.pending is not None:
            name, value = self.pending
            allowed.setdefault(name, {None}).add(value)
        lost = [
            f"{name}: {mine.get(name)} instead of {sorted(map(str, allowed.get(name, {None})))}"
            for name in sorted(allowed.keys() | mine.keys())
            if mine.get(name) not in allowed.get(name, {None})
        ]
        self.acknowledged, self.pending = mine, None
        return lost


async def read_values(client: KubeClient) -> dict[str, int]:
    """Return the value of every object of the writers."""
    listing = await client.list(CONFIG_MAPS, "default")
    named = {each["metadata"]["name"]: each for each in listing.items}
    return {name: int(each["data"]["n"]) for name, each in named.items() if name.startswith("w")}


async def write_together(writers: list[Writer], kubeconfig: Path) -> None:
    await asyncio.gather(*(each.write_until_cut_off(kubeconfig) for each in writers))
