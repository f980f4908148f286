"""Show who gets which GPU of this machine: `python -m bench.gpus [FOLDER]`.

Starts a cluster with one node, one pod for each GPU and one more, and a pod that asks for none. Each opens CUDA,
says which devices it sees and, where there is one, fills and reads back some of its memory. The surplus pod waits,
and has its GPU when another pod has ended. Needs nvidia-smi on the PATH; the last line is the verdict.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path
from typing import Any

from pliant.embedded.cluster import ClusterConfig, EmbeddedCluster
from pliant.embedded.controllers.gpu_health import discover_gpus
from pliant.embedded.scheduler.gpu_allocation import GPU_RESOURCE
from pliant.kube.client import KubeClient
from pliant.kube.resources import PODS

LIMIT = 120.0
"""Seconds for the whole demonstration."""
LOOK = r"""
import ctypes, os, sys, time
wanted, gate = os.environ.get("CUDA_VISIBLE_DEVICES", "unset"), sys.argv[1]
words = f"visible={wanted or 'nothing'}"
try:
    cuda = ctypes.CDLL("libcuda.so.1")
    count, device, context, memory = ctypes.c_int(), ctypes.c_int(), ctypes.c_void_p(), ctypes.c_uint64()
    cuda.cuInit(0)
    cuda.cuDeviceGetCount(ctypes.byref(count))
    words += f" devices={count.value}"
    if count.value:
        uuid, back = (ctypes.c_ubyte * 16)(), (ctypes.c_uint32 * 1024)()
        cuda.cuDeviceGet(ctypes.byref(device), 0)
        cuda.cuDeviceGetUuid(uuid, device)
        failed = cuda.cuCtxCreate_v2(ctypes.byref(context), 0, device)
        failed = failed or cuda.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(64 << 20))
        failed = failed or cuda.cuMemsetD32_v2(memory, ctypes.c_uint32(42), ctypes.c_size_t(16 << 20))
        failed = failed or cuda.cuMemcpyDtoH_v2(back, memory, ctypes.c_size_t(4096))
        works = not failed and set(back) == {42}
        words += f" first={bytes(uuid).hex()} memory={'works' if works else f'fails with {failed}'}"
except OSError as problem:
    words += f" cuda={problem}"
print(words, flush=True)
while gate and not os.path.exists(gate):
    time.sleep(0.1)
"""


async def main(folder: Path) -> None:
    """Run the demonstration in a folder."""
    gpus = await discover_gpus()
    if not gpus:
        raise SystemExit("no GPU here: nvidia-smi lists none")
    say("machine", ", ".join(map(str, gpus)))
    async with asyncio.timeout(LIMIT), EmbeddedCluster.start(_config(folder)) as cluster:
        client = KubeClient(cluster.transport)
        names = [f"pod-{number}" for number in range(len(gpus) + 1)]
        for name in names:
            await create(client, name, 1, folder / name)
        await create(client, "pod-without", 0, None)
        happy = [name for name in names if (await settled(client, name))["status"]["phase"] == "Running"]
        (waiting,) = set(names) - set(happy)
        for name in (*happy, "pod-without"):
            say(name, await said(client, name))
        say(waiting, (await settled(client, waiting))["status"]["conditions"][0]["message"])
        (folder / happy[0]).touch()
        (folder / waiting).touch()
        say(waiting, f"{await said(client, waiting)} (after {happy[0]} has ended)")
        seen = [(await said(client, name)).split()[0] for name in happy]
        is_good = len(set(seen)) == len(gpus) and await said(client, waiting) == await said(client, happy[0])
        sys.stdout.write("each GPU had one pod at a time\n" if is_good else "SOMETHING IS WRONG\n")


def _config(folder: Path) -> ClusterConfig:
    return ClusterConfig(data_dir=folder / "cluster", workspace=folder, durable=False)


async def create(client: KubeClient, name: str, gpus: int, gate: Path | None) -> None:
    """Make a pod that looks around and stays until its gate is opened."""
    command = ["python3", "-c", LOOK, str(gate or "")]
    resources = {"limits": {GPU_RESOURCE: str(gpus)}} if gpus else {}
    container = {"name": "main", "image": "none", "command": command, "resources": resources}
    spec = {"restartPolicy": "Never", "containers": [container]}
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
    await client.create(PODS, "default", body)


async def settled(client: KubeClient, name: str) -> dict[str, Any]:
    """A pod once it runs, has ended, or knows why it waits."""
    while True:
        pod: dict[str, Any] = await client.get(PODS, "default", name)
        status = pod["status"]
        if status["phase"] != "Pending" or status.get("conditions", [{}])[0].get("status") == "False":
            return pod
        await asyncio.sleep(0.1)


async def said(client: KubeClient, name: str) -> str:
    """The first line of a pod."""
    while True:
        if (await settled(client, name))["status"]["phase"] != "Pending":
            text = b"".join([chunk async for chunk in client.stream_logs("default", name)]).decode()
            if "\n" in text:
                return text.splitlines()[0]
        await asyncio.sleep(0.1)


def say(who: str, what: str) -> None:
    """One line of the demonstration."""
    sys.stdout.write(f"{who:<12} {what}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        asyncio.run(main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(scratch)))
