"""The node agent of the host network mode: rewrites host names and mount paths in commands and environments."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path, PurePosixPath
from socket import socket

from pliant.embedded.agent.container.config import ContainerConfig, Mount
from pliant.embedded.kubelet.environment.command_rewriter import CommandRewriter
from pliant.embedded.kubelet.runtime.agent_process import AgentOptions
from pliant.embedded.kubelet.runtime.messages import ExecStreams, ExitFuture
from pliant.embedded.kubelet.runtime.node_agent import ExecSession, NodeAgentClient
from pliant.embedded.kubelet.volumes import beneath
from pliant.embedded.network.host_network import LoopbackAddressAllocator


class LoopbackNodeAgentClient(NodeAgentClient):
    """Gives pods loopback addresses, and replaces host names and mount paths by addresses and host paths."""

    def __init__(self, options: AgentOptions) -> None:
        super().__init__(options)
        self.address_pool = LoopbackAddressAllocator("")
        self.memory_dir = Path()
        """The directory for volumes of medium Memory."""
        self.rewrite_hostnames: Callable[[str], str] = lambda text: text
        self.rewrite_short_hostnames: Callable[[str, str], str] = lambda text, namespace: text
        """Also rewrites the short names of services of a namespace."""
        self._pod_addresses: dict[str, str] = {}
        self._pod_namespaces: dict[str, str] = {}
        self._rewriters: dict[tuple[str, str], CommandRewriter] = {}

    async def _connect(self) -> None:
        await super()._connect()
        if not self.address_pool.starts_at(self.gateway_address):
            self.address_pool = LoopbackAddressAllocator(self.gateway_address)

    async def create_pod(self, pod_uid: str, hostname: str, *, own_address: bool = True, pod_key: str = "") -> str:
        """Create a pod at the address of its host name, or at the agent's without its own network."""
        namespace = pod_key.rpartition("/")[0]
        address = self.address_pool.allocate(f"{namespace}/{hostname}", pod_uid, pod_key) if own_address else ""
        self._pod_namespaces[pod_uid] = namespace
        address = await self._create_sandbox(pod_uid, hostname, own_network=own_address, address=address)
        self._pod_addresses[pod_uid] = address
        return address

    async def remove_pod(self, pod_uid: str) -> None:
        await super().remove_pod(pod_uid)
        await asyncio.to_thread(shutil.rmtree, self.memory_dir / pod_uid, ignore_errors=True)
        self._pod_addresses.pop(pod_uid, None)
        self._pod_namespaces.pop(pod_uid, None)
        self.address_pool.release(pod_uid)

    async def start_container(self, pod_uid: str, run_name: str, config: ContainerConfig) -> ExitFuture:
        """Start a container with a rewritten command and environment, and without mounts."""
        namespace = self._pod_namespaces.get(pod_uid, "")
        rewriter = CommandRewriter(
            mount_sources={mount["target"]: self._mount_source(pod_uid, mount) for mount in config["mounts"]},
            rewrite_hostnames=self.rewrite_hostnames,
            rewrite_short_hostnames=lambda text: self.rewrite_short_hostnames(text, namespace),
        )
        rewritten = config.copy()
        rewritten["argv"] = [rewriter.rewrite_text(argument) for argument in config["argv"]]
        rewritten["env"] = rewriter.rewrite_env(config["env"])
        rewritten["working_dir"] = rewriter.rewrite_text(config["working_dir"])
        rewritten["mounts"] = []
        exit_future = await super().start_container(pod_uid, run_name, rewritten)
        self._rewriters[pod_uid, run_name] = rewriter
        exit_future.add_done_callback(lambda _: self._rewriters.pop((pod_uid, run_name), None))
        return exit_future

    async def start_session(self, pod_uid: str, run_name: str, argv: Sequence[str], stdio: ExecStreams) -> ExecSession:
        rewriter = self._rewriters.get((pod_uid, run_name))
        if rewriter is not None:
            argv = [rewriter.rewrite_text(argument) for argument in argv]
        return await super().start_session(pod_uid, run_name, argv, stdio)

    async def open_socket(
        self, socket_type: str, address: str = "", port: int = 0, *, in_egress: bool = False, pod_uid: str = ""
    ) -> socket:
        """Open a socket of the host; the addresses of services are mapped to loopback addresses."""
        address = self.address_pool.map_service_address(address)
        return await super().open_socket(socket_type, address, port, in_egress=in_egress, pod_uid=pod_uid)

    async def connect_in_pod_network(self, address: str, port: int, *, pod_uid: str = "") -> socket:
        """Connect to a pod at its own address: all pods share the loopback interface."""
        return await super().connect_in_pod_network(self._pod_addresses.get(pod_uid, address), port, pod_uid=pod_uid)

    def _mount_source(self, pod_uid: str, mount: Mount) -> str:
        if "source" in mount:
            return mount["source"]
        return str(beneath.make_directory(self.memory_dir, pod_uid, *PurePosixPath(mount["memory_name"]).parts))
