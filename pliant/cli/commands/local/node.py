"""`pliant node`: let a node of the cluster on this machine fail, and have it back."""

from __future__ import annotations

import asyncio
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pliant.cli.cluster.target import add_target_options, connect_target
from pliant.embedded.fault_annotations import GPU_FAULT_ANNOTATION, NODE_OUTAGE_ANNOTATION, OUTAGE_KILLED, OUTAGE_PAUSED
from pliant.errors import NotFound, PliantError, UserError

if TYPE_CHECKING:
    from pliant.kube.client import KubeClient

NODE_TIMEOUT = 20.0
"""Seconds within which a node is seen to be lost, or to be back."""
_GPU_RESOURCE = "nvidia.com/gpu"
_RUNTIME_PREFIX = "pliant://"
_DEFAULT_GPU_FAULT = "Xid 79: GPU has fallen off the bus"

EPILOG = """\
kill       every process on the node dies at once; the node is lost, and nobody tells what became of its pods
pause      every process on the node stands still; the node is lost until it is healed, and then all goes on
gpu-fault  the first GPU of the node is bad; its pods go on, and who asks for GPUs finds one less
heal       the node is back, also one that `kubectl delete node` took away

Only clusters of `pliant up` can do this; give it several nodes with `pliant up --nodes 3`.

examples:
  pliant node kill node-1               what does my job do when it loses a machine?
  pliant node heal node-1
  pliant node gpu-fault node-0          what when a GPU goes bad?
  pliant node gpu-fault node-0 --heal
"""

NodeObject = dict[str, Any]


class NodeNotChanged(PliantError):
    """The cluster does not do what it was asked to."""


def configure(parser: ArgumentParser) -> None:
    """Declare the options."""
    parser.epilog = EPILOG
    parser.add_argument("action", choices=["kill", "pause", "heal", "gpu-fault"], help="what happens to it")
    parser.add_argument("node", metavar="NODE", help="its name, as in `kubectl get nodes`")
    parser.add_argument("--heal", action="store_true", help="with gpu-fault: the GPU is well again")
    parser.add_argument(
        "--message",
        default=_DEFAULT_GPU_FAULT,
        metavar="TEXT",
        help=f"what is wrong with the GPU ({_DEFAULT_GPU_FAULT})",
    )
    add_target_options(parser)


def execute(args: Namespace) -> int:
    """Do it, and wait until the cluster has noticed."""
    if args.heal and args.action != "gpu-fault":
        raise UserError(f"--heal goes with gpu-fault; to have the node back, `pliant node heal {args.node}`")
    return asyncio.run(_run_action(args))


async def _run_action(args: Namespace) -> int:
    async with connect_target(args) as target:
        client, name = target.client, args.node
        node = await _find_node(client, name)
        if args.action == "heal":
            await _recover_node(client, name, node)
        elif node is None:
            there = await _existing_nodes_text(client)
            raise UserError(f"there is no node `{name}`{there}; was it deleted? `pliant node heal {name}`")
        elif args.action == "gpu-fault":
            await _set_gpu_fault(client, name, node, "" if args.heal else args.message)
        else:
            await _inject_outage(client, name, OUTAGE_KILLED if args.action == "kill" else OUTAGE_PAUSED)
    return 0


async def _find_node(client: KubeClient, name: str) -> NodeObject | None:
    """The node, if it is there; never one of a real cluster."""
    from pliant.kube.resources import NODES

    try:
        node: NodeObject = await client.get(NODES, None, name)
    except NotFound:
        if b"+pliant" not in await client.get_raw("/version"):
            raise UserError(f"there is no node `{name}`, and the cluster is none of `pliant up`") from None
        return None
    about = (node.get("status") or {}).get("nodeInfo") or {}
    if about and not str(about.get("containerRuntimeVersion")).startswith(_RUNTIME_PREFIX):
        raise UserError(f"node `{name}` is not of a cluster of `pliant up`: it is left alone")
    return node


async def _existing_nodes_text(client: KubeClient) -> str:
    from pliant.kube.resources import NODES

    names = [node["metadata"]["name"] for node in (await client.list(NODES)).items]
    return f" (there is {', '.join(names)})" if names else ""


async def _inject_outage(client: KubeClient, name: str, outage: str) -> None:
    pods = await _count_running_pods(client, name)
    await _annotate_node(client, name, {NODE_OUTAGE_ANNOTATION: outage})
    await _wait_for_node(client, name, lambda node: _condition_status(node, "Ready") != "True", "be lost")
    fate = "died" if outage == OUTAGE_KILLED else "stand still"
    what = f"the processes of its {_pod_count_text(pods)} {fate}" if pods else "no pod was running there"
    sys.stdout.write(f"{name} is {outage} and not ready; {what}\n")
    sys.stdout.write(f"have it back with: pliant node heal {name}\n")


async def _recover_node(client: KubeClient, name: str, node: NodeObject | None) -> None:
    from pliant.kube.resources import NODES

    if node is None:
        body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}
        await client.create(NODES, None, body)
    else:
        await _annotate_node(client, name, {NODE_OUTAGE_ANNOTATION: None, GPU_FAULT_ANNOTATION: None})
    try:
        await _wait_for_node(
            client,
            name,
            lambda node: _condition_status(node, "Ready") == "True",
            "be back",
            NODE_TIMEOUT if node else 5,
        )
    except NodeNotChanged:
        if node is None:
            await client.delete(NODES, None, name)
            raise UserError(f"the cluster never had a node `{name}`{await _existing_nodes_text(client)}") from None
        raise
    sys.stdout.write(f"{name} is ready\n")


async def _set_gpu_fault(client: KubeClient, name: str, node: NodeObject, message: str) -> None:
    has = int(((node.get("status") or {}).get("capacity") or {}).get(_GPU_RESOURCE, 0))
    if not has:
        raise UserError(f"node `{name}` offers no GPU; pretend some with `pliant up --node-gpu 2`")
    await _annotate_node(client, name, {GPU_FAULT_ANNOTATION: message or None})
    await _wait_for_node(
        client, name, lambda node: (_condition_status(node, "GPUUnhealthy") == "True") is bool(message), "say so"
    )
    sys.stdout.write(f"{name} has a bad GPU: {message}\n" if message else f"the GPUs of {name} are well\n")
    if message:
        sys.stdout.write(f"have it back with: pliant node gpu-fault {name} --heal\n")


async def _annotate_node(client: KubeClient, name: str, annotations: dict[str, str | None]) -> None:
    from pliant.kube.resources import NODES

    await client.patch(NODES, None, name, {"metadata": {"annotations": annotations}})


async def _count_running_pods(client: KubeClient, node_name: str) -> int:
    from pliant.kube.resources import PODS

    pods = (await client.list(PODS, fields=f"spec.nodeName={node_name}")).items
    return sum(pod["status"].get("phase") == "Running" for pod in pods)


async def _wait_for_node(
    client: KubeClient,
    name: str,
    condition: Callable[[NodeObject], bool],
    expectation: str,
    timeout: float = NODE_TIMEOUT,
) -> None:
    """Wait until a node is as wanted."""
    from contextlib import aclosing

    from pliant.kube.resources import NODES

    chosen = f"metadata.name={name}"
    listing = await client.list(NODES, fields=chosen)
    if any(condition(node) for node in listing.items):
        return
    changes = client.watch(NODES, resource_version=listing.resource_version, fields=chosen)
    try:
        async with asyncio.timeout(timeout), aclosing(changes):
            async for change in changes:
                if change.object is not None and condition(change.object):
                    return
    except TimeoutError:
        pass
    raise NodeNotChanged(
        f"node `{name}` should {expectation}, but after {timeout:.0f}s it does not; is the cluster well?"
    )


def _condition_status(node: NodeObject, condition_type: str) -> str:
    conditions = (node.get("status") or {}).get("conditions") or ()
    return next((str(each["status"]) for each in conditions if each["type"] == condition_type), "")


def _pod_count_text(count: int) -> str:
    return f"{count} running pods" if count != 1 else "one running pod"
