"""An agent whose pods share this machine's network and files: what it cannot show them it says in words."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from socket import socket

from pliant.embedded.kubelet.environment.command_rewriter import CommandRewriter
from pliant.embedded.kubelet.runtime.messages import ContainerConfig, ContainerExit, ExecStreams, Mount
from pliant.embedded.kubelet.runtime.node_agent import AgentOptions, ExecSession, NodeAgent
from pliant.embedded.network.host_network import LoopbackAddressAllocator


class HostNetworkAgent(NodeAgent):
    """Gives pods loopback addresses, and their commands and variables the places of names and mounts."""

    def __init__(self, options: AgentOptions) -> None:
        super().__init__(options)
        self.address_pool = LoopbackAddressAllocator("")
        self.memory_dir = Path()
        """Where there are folders for what pods want to have in memory."""
        self.rewrite_hostnames: Callable[[str], str] = _keep_text
        """Puts addresses in place of names."""
        self.rewrite_short_hostnames: Callable[[str, str], str] = lambda text, namespace: text
        """The same, with bare names of services in a namespace."""
        self._pod_addresses: dict[str, str] = {}
        self._pod_namespaces: dict[str, str] = {}
        self._rewriters: dict[tuple[str, str], CommandRewriter] = {}

    async def _connect(self) -> None:
        await super()._connect()
        if not self.address_pool.starts_at(self.address):
            self.address_pool = LoopbackAddressAllocator(self.address)

    async def create_pod(self, pod_uid: str, hostname: str, *, own_network: bool = True, pod_key: str = "") -> str:
        """Choose a pod's address: that of its name, or the agent's own where it wants no network of its own."""
        namespace = pod_key.rpartition("/")[0]
        wanted = self.address_pool.allocate(f"{namespace}/{hostname}", pod_uid, pod_key) if own_network else ""
        self._pod_namespaces[pod_uid] = namespace
        self._pod_addresses[pod_uid] = await self._create_pod(
            pod_uid, hostname, own_network=own_network, address=wanted
        )
        return self._pod_addresses[pod_uid]

    async def remove_pod(self, pod_uid: str) -> None:
        """Kill what still runs in a pod and free its address."""
        await super().remove_pod(pod_uid)
        await asyncio.to_thread(shutil.rmtree, self.memory_dir / pod_uid, ignore_errors=True)
        self._pod_addresses.pop(pod_uid, None)
        self._pod_namespaces.pop(pod_uid, None)
        self.address_pool.release(pod_uid)

    async def start_container(
        self, pod_uid: str, run_name: str, config: ContainerConfig
    ) -> asyncio.Future[ContainerExit]:
        """Start a container that is told where things are instead of finding them in place."""
        folders = {each["target"]: self._mount_source(pod_uid, each) for each in config["mounts"]}
        namespace = self._pod_namespaces.get(pod_uid, "")
        wording = CommandRewriter(
            mount_sources=folders,
            rewrite_hostnames=self.rewrite_hostnames,
            rewrite_short_hostnames=lambda text: self.rewrite_short_hostnames(text, namespace),
        )
        worded = config.copy()
        worded["argv"] = [wording.rewrite_text(word) for word in config["argv"]]
        worded["env"] = wording.rewrite_env(config["env"])
        worded["folder"] = wording.rewrite_text(config["folder"])
        worded["mounts"] = []
        ending = await super().start_container(pod_uid, run_name, worded)
        self._rewriters[pod_uid, run_name] = wording
        ending.add_done_callback(lambda _: self._rewriters.pop((pod_uid, run_name), None))
        return ending

    async def start_session(
        self, pod_uid: str, run_name: str, argv: Sequence[str], streams: ExecStreams
    ) -> ExecSession:
        """Start one more command, in the words of its container."""
        wording = self._rewriters.get((pod_uid, run_name))
        return await super().start_session(
            pod_uid, run_name, [wording.rewrite_text(word) for word in argv] if wording else argv, streams
        )

    async def open_socket(
        self, socket_type: str, address: str = "", port: int = 0, *, in_egress: bool = False, pod_uid: str = ""
    ) -> socket:
        """A socket of this machine; services are at loopback addresses, too."""
        return await super().open_socket(
            socket_type, self.address_pool.map_service_address(address), port, in_egress=in_egress, pod_uid=pod_uid
        )

    async def connect(self, address: str, port: int, *, pod_uid: str = "") -> socket:
        """A connection to a pod; a pod's own loopback is everybody's, so its address is meant."""
        return await super().connect(self._pod_addresses.get(pod_uid, address), port, pod_uid=pod_uid)

    def _mount_source(self, pod_uid: str, mount: Mount) -> str:
        if "source" in mount:
            return mount["source"]
        folder = self.memory_dir / pod_uid / mount["memory"]
        folder.mkdir(parents=True, exist_ok=True)
        return str(folder)


def _keep_text(text: str) -> str:
    return text
