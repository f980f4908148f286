"""`pliant node`: simulates failures of nodes of the local cluster, and recovers from them."""

from __future__ import annotations

import asyncio
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from pliant.cli.cluster.target import add_target_options, connect_target
from pliant.embedded.fault_annotations import (
    GPU_FAULT_ANNOTATION,
    NODE_OUTAGE_ANNOTATION,
    OUTAGE_VALUE_KILLED,
    OUTAGE_VALUE_PAUSED,
)
from pliant.errors import NotFound, PliantError, UserError
from pliant.kube.resources import NODES, PODS

if TYPE_CHECKING:
    from pliant.kube.client import KubeClient

NODE_CHANGE_TIMEOUT_SECONDS = 20.0  # seconds until the cluster must have noticed the change
_GPU_RESOURCE = "nvidia.com/gpu"
_RUNTIME_PREFIX = "pliant://"
_DEFAULT_GPU_FAULT = "Xid 79: GPU has fallen off the bus"

DESCRIPTION = "Simulate the failure of a node or GPU of a local cluster, or recover the node."
EPILOG = """\
actions:
  kill       kill all processes on the node; the node becomes NotReady and reports nothing about its pods
  pause      stop all processes on the node; the node is NotReady until it is recovered, then the processes continue
  gpu-fault  mark the first GPU of the node as unhealthy; running pods continue, the node offers one GPU less
  recover    make the node Ready again; also recreates a node that `kubectl delete node` has deleted

Only clusters of `pliant up` support these actions. `pliant up --nodes 3` starts a cluster with several nodes.

examples:
  pliant node kill node-1                  what does my job do when it loses a node?
  pliant node recover node-1
  pliant node gpu-fault node-0             what does it do when a GPU fails?
  pliant node gpu-fault node-0 --recover
"""

NodeObject = dict[str, Any]


class NodeChangeTimeout(PliantError):
    """The node did not reach the expected state."""


def configure(parser: ArgumentParser) -> None:
    parser.add_argument("action", choices=["kill", "pause", "gpu-fault", "recover"], help="Action on the node")
    parser.add_argument("node", metavar="NODE", help="Name of the node, as listed by `kubectl get nodes`")
    parser.add_argument("--recover", action="store_true", help="With gpu-fault: make the GPU healthy again")
    parser.add_argument(
        "--message", default=_DEFAULT_GPU_FAULT, metavar="TEXT", help=f"Fault message of the GPU ({_DEFAULT_GPU_FAULT})"
    )
    add_target_options(parser)


async def execute(args: Namespace) -> int:
    if args.recover and args.action != "gpu-fault":
        raise UserError(f"--recover requires gpu-fault; to recover the node, run `pliant node recover {args.node}`")
    async with connect_target(args) as target:
        client, name = target.client, args.node
        node = await _find_node(client, name)
        if args.action == "recover":
            await _recover_node(client, name, node)
        elif node is None:
            existing = await _existing_nodes_text(client)
            raise UserError(f"node `{name}` not found{existing}; if it was deleted, run `pliant node recover {name}`")
        elif args.action == "gpu-fault":
            await _set_gpu_fault(client, name, node, "" if args.recover else args.message)
        else:
            await _inject_outage(client, name, OUTAGE_VALUE_KILLED if args.action == "kill" else OUTAGE_VALUE_PAUSED)
    return 0


async def _find_node(client: KubeClient, name: str) -> NodeObject | None:
    """Return the node or None; raise UserError for nodes of a cluster that is not a local one."""
    try:
        node: NodeObject = await client.get(NODES, None, name)
    except NotFound:
        if b"+pliant" not in await client.get_raw("/version"):
            raise UserError(f"node `{name}` not found, and the cluster is not a cluster of `pliant up`") from None
        return None
    node_info = (node.get("status") or {}).get("nodeInfo") or {}
    if node_info and not str(node_info.get("containerRuntimeVersion")).startswith(_RUNTIME_PREFIX):
        raise UserError(f"node `{name}` does not belong to a cluster of `pliant up`")
    return node


async def _existing_nodes_text(client: KubeClient) -> str:
    names = [node["metadata"]["name"] for node in (await client.list(NODES)).items]
    return f" (nodes: {', '.join(names)})" if names else ""


async def _inject_outage(client: KubeClient, name: str, outage: str) -> None:
    pods = (await client.list(PODS, fields=f"spec.nodeName={name}")).items
    running = sum(pod["status"].get("phase") == "Running" for pod in pods)
    await _annotate_node(client, name, {NODE_OUTAGE_ANNOTATION: outage})
    await _wait_for_node(client, name, lambda node: not _is_true(node, "Ready"), "become NotReady")
    result = "were killed" if outage == OUTAGE_VALUE_KILLED else "are stopped"
    count = "1 running pod" if running == 1 else f"{running} running pods"
    effect = f"the processes of its {count} {result}" if running else "no pod was running on it"
    sys.stdout.write(f"{name} is {outage} and NotReady; {effect}\nrecover it with: pliant node recover {name}\n")


async def _recover_node(client: KubeClient, name: str, node: NodeObject | None) -> None:
    if node is None:
        body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}
        await client.create(NODES, None, body)
    else:
        await _annotate_node(client, name, {NODE_OUTAGE_ANNOTATION: None, GPU_FAULT_ANNOTATION: None})
    try:
        timeout = NODE_CHANGE_TIMEOUT_SECONDS if node else 5.0
        await _wait_for_node(client, name, lambda node: _is_true(node, "Ready"), "become Ready", timeout)
    except NodeChangeTimeout:
        if node is None:
            await client.delete(NODES, None, name)
            raise UserError(f"the cluster has no node `{name}`{await _existing_nodes_text(client)}") from None
        raise
    sys.stdout.write(f"{name} is Ready\n")


async def _set_gpu_fault(client: KubeClient, name: str, node: NodeObject, message: str) -> None:
    gpu_count = int(((node.get("status") or {}).get("capacity") or {}).get(_GPU_RESOURCE, 0))
    if not gpu_count:
        raise UserError(f"node `{name}` has no GPU; simulate some with `pliant up --node-gpu 2`")
    await _annotate_node(client, name, {GPU_FAULT_ANNOTATION: message or None})
    await _wait_for_node(client, name, lambda node: _is_true(node, "GPUUnhealthy") is bool(message), "report it")
    if message:
        sys.stdout.write(f"{name} has an unhealthy GPU: {message}\n")
        sys.stdout.write(f"recover it with: pliant node gpu-fault {name} --recover\n")
    else:
        sys.stdout.write(f"all GPUs of {name} are healthy\n")


async def _annotate_node(client: KubeClient, name: str, annotations: dict[str, str | None]) -> None:
    await client.patch(NODES, None, name, {"metadata": {"annotations": annotations}})


async def _wait_for_node(
    client: KubeClient,
    name: str,
    condition: Callable[[NodeObject], bool],
    expectation: str,
    timeout: float = NODE_CHANGE_TIMEOUT_SECONDS,
) -> None:
    selector = f"metadata.name={name}"
    listing = await client.list(NODES, fields=selector)
    if any(condition(node) for node in listing.items):
        return
    changes = client.watch(NODES, resource_version=listing.resource_version, fields=selector)
    try:
        async with asyncio.timeout(timeout), aclosing(changes):
            async for change in changes:
                if change.object is not None and condition(change.object):
                    return
    except TimeoutError:
        pass
    raise NodeChangeTimeout(f"node `{name}` did not {expectation} within {timeout:.0f}s; check it with `pliant status`")


def _is_true(node: NodeObject, condition_type: str) -> bool:
    conditions = (node.get("status") or {}).get("conditions") or ()
    return any(condition["type"] == condition_type and condition["status"] == "True" for condition in conditions)
