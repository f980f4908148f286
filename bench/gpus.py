"""Shows which pod gets which GPU of this machine: `python -m bench.gpus [FOLDER]`.

Starts a cluster with one node, one pod more than there are GPUs, and a pod that requests no GPU. Each pod initializes
CUDA, prints the visible devices and, if there is one, writes and reads some of its memory. The surplus pod is pending
until another pod has ended. Requires nvidia-smi on the PATH; the last line is the result.
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

TIMEOUT = 120.0
"""Seconds for the whole demonstration."""
PROBE_SCRIPT = r"""
import ctypes, os, sys, time
visible, gate = os.environ.get("CUDA_VISIBLE_DEVICES", "unset"), sys.argv[1]
report = f"visible={visible or 'none'}"
try:
    cuda = ctypes.CDLL("libcuda.so.1")
    count, device, context, memory = ctypes.c_int(), ctypes.c_int(), ctypes.c_void_p(), ctypes.c_uint64()
    cuda.cuInit(0)
    cuda.cuDeviceGetCount(ctypes.byref(count))
    report += f" devices={count.value}"
    if count.value:
        uuid, back = (ctypes.c_ubyte * 16)(), (ctypes.c_uint32 * 1024)()
        cuda.cuDeviceGet(ctypes.byref(device), 0)
        cuda.cuDeviceGetUuid(uuid, device)
        failed = cuda.cuCtxCreate_v2(ctypes.byref(context), 0, device)
        failed = failed or cuda.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(64 << 20))
        failed = failed or cuda.cuMemsetD32_v2(memory, ctypes.c_uint32(42), ctypes.c_size_t(16 << 20))
        failed = failed or cuda.cuMemcpyDtoH_v2(back, memory, ctypes.c_size_t(4096))
        is_ok = not failed and set(back) == {42}
        report += f" uuid={bytes(uuid).hex()} memory={'ok' if is_ok else f'error {failed}'}"
except OSError as error:
    report += f" cuda={error}"
print(report, flush=True)
while gate and not os.path.exists(gate):
    time.sleep(0.1)
"""


async def main(folder: Path) -> None:
    """Run the demonstration in a folder."""
    gpus = await discover_gpus()
    if not gpus:
        raise SystemExit("nvidia-smi lists no GPU")
    print_line("machine", ", ".join(map(str, gpus)))
    async with asyncio.timeout(TIMEOUT), EmbeddedCluster.start(_config(folder)) as cluster:
        client = KubeClient(cluster.transport)
        names = [f"pod-{number}" for number in range(len(gpus) + 1)]
        for name in names:
            await create_pod(client, name, 1, folder / name)
        await create_pod(client, "pod-without", 0, None)
        running = [name for name in names if (await wait_settled(client, name))["status"]["phase"] == "Running"]
        (pending,) = set(names) - set(running)
        for name in (*running, "pod-without"):
            print_line(name, await read_first_line(client, name))
        print_line(pending, (await wait_settled(client, pending))["status"]["conditions"][0]["message"])
        (folder / running[0]).touch()
        (folder / pending).touch()
        print_line(pending, f"{await read_first_line(client, pending)} (after {running[0]} has ended)")
        visible = [(await read_first_line(client, name)).split()[0] for name in running]
        has_same_gpu = await read_first_line(client, pending) == await read_first_line(client, running[0])
        is_exclusive = len(set(visible)) == len(gpus) and has_same_gpu
        result = "each GPU had one pod at a time" if is_exclusive else "FAILED: some pods did not have their own GPU"
        sys.stdout.write(f"{result}\n")


def _config(folder: Path) -> ClusterConfig:
    return ClusterConfig(data_dir=folder / "cluster", workspace=folder, durable=False)


async def create_pod(client: KubeClient, name: str, gpus: int, gate: Path | None) -> None:
    """Create a pod that runs the probe and exits when its gate file exists."""
    command = ["python3", "-c", PROBE_SCRIPT, str(gate or "")]
    resources = {"limits": {GPU_RESOURCE: str(gpus)}} if gpus else {}
    container = {"name": "main", "image": "none", "command": command, "resources": resources}
    spec = {"restartPolicy": "Never", "containers": [container]}
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
    await client.create(PODS, "default", body)


async def wait_settled(client: KubeClient, name: str) -> dict[str, Any]:
    """Return a pod once it runs, has ended, or has a condition that explains why it is pending."""
    while True:
        pod: dict[str, Any] = await client.get(PODS, "default", name)
        status = pod["status"]
        if status["phase"] != "Pending" or status.get("conditions", [{}])[0].get("status") == "False":
            return pod
        await asyncio.sleep(0.1)


async def read_first_line(client: KubeClient, name: str) -> str:
    """Return the first line of the log of a pod."""
    while True:
        if (await wait_settled(client, name))["status"]["phase"] != "Pending":
            text = b"".join([chunk async for chunk in client.stream_logs("default", name)]).decode()
            if "\n" in text:
                return text.splitlines()[0]
        await asyncio.sleep(0.1)


def print_line(label: str, text: str) -> None:
    """Print one line of the demonstration."""
    sys.stdout.write(f"{label:<12} {text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        asyncio.run(main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(scratch)))
