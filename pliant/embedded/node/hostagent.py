"""An agent whose pods share this machine's network and files: what it cannot show them it says in words."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from socket import socket

from pliant.embedded.network.allotment import Allotment
from pliant.embedded.node.commands import Command, Ending, Mount, Streams
from pliant.embedded.node.link import Launch, NodeAgent, Session
from pliant.embedded.node.wording import Wording


class HostAgent(NodeAgent):
    """Gives pods loopback addresses, and their commands and variables the places of names and mounts."""

    def __init__(self, launch: Launch) -> None:
        super().__init__(launch)
        self.allotment = Allotment("")
        self.memory = Path()
        """Where there are folders for what pods want to have in memory."""
        self.spoken: Callable[[str], str] = _unchanged
        """Puts addresses in place of names."""
        self.spoken_nearby: Callable[[str, str], str] = lambda text, namespace: text
        """The same, with bare names of services in a namespace."""
        self._pods: dict[str, str] = {}
        self._namespaces: dict[str, str] = {}
        self._wordings: dict[tuple[str, str], Wording] = {}

    async def _begin(self) -> None:
        await super()._begin()
        if not self.allotment.begins_at(self.address):
            self.allotment = Allotment(self.address)

    async def make_pod(self, pod: str, hostname: str, *, own_network: bool = True, member: str = "") -> str:
        """Choose a pod's address: that of its name, or the agent's own where it wants no network of its own."""
        namespace = member.rpartition("/")[0]
        wanted = self.allotment.take(f"{namespace}/{hostname}", pod, member) if own_network else ""
        self._namespaces[pod] = namespace
        self._pods[pod] = await self._made(pod, hostname, own_network=own_network, address=wanted)
        return self._pods[pod]

    async def remove_pod(self, pod: str) -> None:
        """Kill what still runs in a pod and free its address."""
        await super().remove_pod(pod)
        await asyncio.to_thread(shutil.rmtree, self.memory / pod, ignore_errors=True)
        self._pods.pop(pod, None)
        self._namespaces.pop(pod, None)
        self.allotment.release(pod)

    async def start(self, pod: str, run: str, command: Command) -> asyncio.Future[Ending]:
        """Start a container that is told where things are instead of finding them in place."""
        folders = {each["target"]: self._source(pod, each) for each in command["mounts"]}
        namespace = self._namespaces.get(pod, "")
        wording = Wording(
            folders=folders, spoken=self.spoken, nearby=lambda text: self.spoken_nearby(text, namespace)
        )
        worded = command.copy()
        worded["argv"] = [wording.text(word) for word in command["argv"]]
        worded["env"] = wording.variables(command["env"])
        worded["folder"] = wording.text(command["folder"])
        worded["mounts"] = []
        ending = await super().start(pod, run, worded)
        self._wordings[pod, run] = wording
        ending.add_done_callback(lambda _: self._wordings.pop((pod, run), None))
        return ending

    async def execute(self, pod: str, run: str, argv: Sequence[str], streams: Streams) -> Session:
        """Start one more command, in the words of its container."""
        wording = self._wordings.get((pod, run))
        return await super().execute(pod, run, [wording.text(word) for word in argv] if wording else argv, streams)

    async def open_socket(
        self, kind: str, address: str = "", port: int = 0, *, outside: bool = False, pod: str = ""
    ) -> socket:
        """A socket of this machine; services are at loopback addresses, too."""
        return await super().open_socket(kind, self.allotment.of_service(address), port, outside=outside, pod=pod)

    async def connected(self, address: str, port: int, *, pod: str = "") -> socket:
        """A connection to a pod; a pod's own loopback is everybody's, so its address is meant."""
        return await super().connected(self._pods.get(pod, address), port, pod=pod)

    def _source(self, pod: str, mount: Mount) -> str:
        if "source" in mount:
            return mount["source"]
        folder = self.memory / pod / mount["memory"]
        folder.mkdir(parents=True, exist_ok=True)
        return str(folder)


def _unchanged(text: str) -> str:
    return text
