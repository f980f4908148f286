"""Measures the CPU time to decode pods, compared with `json.loads` of the same bytes.

    python -m bench.decode [--pods 1000] [--rounds 15]

Each round measures every variant once, so that other load on the machine affects all of them equally.
The garbage collector is enabled, as in the operator. Nothing is asserted.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import time
from collections.abc import Callable
from typing import Any

from pliant.kube.codec import decode_page, decode_watch_event
from pliant.kube.objects import Pod
from pliant.kube.resources import PODS

TIMESTAMP = "2030-01-01T00:00:00Z"
MANAGERS = ("pliant", "kube-scheduler", "kubelet")


def make_pod(number: int) -> dict[str, Any]:
    """Return a training pod as a real server returns it: environment, volumes, conditions, managed fields."""
    name = f"bert-{number // 8}-worker-{number % 8}"
    env = [{"name": f"TRAININGJOB_VARIABLE_{i}", "value": f"{name}-{i}.team-a.svc"} for i in range(16)]
    container = {
        "name": "aitj-main",
        "image": "registry.example.org/team-a/bert:2030.01",
        "command": ["python", "-m", "train", "--config", "/etc/train/config.yaml"],
        "env": env,
        "resources": {"limits": {"cpu": "8", "memory": "64Gi", "nvidia.com/gpu": "1"}},
        "volumeMounts": [{"name": f"volume-{i}", "mountPath": f"/mnt/{i}"} for i in range(3)],
    }
    conditions = [
        {"type": condition, "status": "True", "lastTransitionTime": TIMESTAMP, "lastProbeTime": None}
        for condition in ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
    ]
    status = {
        "name": "aitj-main",
        "state": {"running": {"startedAt": TIMESTAMP}},
        "ready": True,
        "restartCount": 0,
        "image": container["image"],
        "imageID": f"registry.example.org/team-a/bert@sha256:{number:064x}",
        "containerID": f"containerd://{number:064x}",
    }
    owner = {"apiVersion": "elasticdeeplearning.ai/v1", "kind": "AITrainingJob", "name": f"bert-{number // 8}"}
    return {
        "metadata": {
            "name": name,
            "namespace": "team-a",
            "uid": f"{number:08x}-0000-4000-8000-000000000000",
            "resourceVersion": str(100_000 + number),
            "creationTimestamp": TIMESTAMP,
            "labels": {f"example.org/label-{i}": f"value-{number}-{i}" for i in range(8)},
            "ownerReferences": [{**owner, "uid": f"{number // 8:08x}", "controller": True}],
            "managedFields": [_make_managed_fields(manager) for manager in MANAGERS],
        },
        "spec": {
            "nodeName": f"node-{number % 64}",
            "restartPolicy": "Never",
            "containers": [container],
            "volumes": [{"name": f"volume-{i}", "emptyDir": {}} for i in range(3)],
            "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
        },
        "status": {
            "phase": "Running",
            "podIP": f"10.0.{number // 256}.{number % 256}",
            "conditions": conditions,
            "containerStatuses": [status],
        },
    }


def _make_managed_fields(manager: str) -> dict[str, Any]:
    fields: dict[str, Any] = {
        f"f:field-{i}": {".": {}, f'k:{{"name":"{i}"}}': {".": {}, "f:value": {}}} for i in range(5)
    }
    entry = {"manager": manager, "operation": "Update", "apiVersion": "v1", "time": TIMESTAMP}
    return {**entry, "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": fields}}


def make_variants(pods: list[dict[str, Any]]) -> dict[str, Callable[[], object]]:
    """Return the functions to measure: decode one list, and decode the same pods as watch events."""
    page = json.dumps({"metadata": {"resourceVersion": "1"}, "items": pods}, separators=(",", ":")).encode()
    lines = [json.dumps({"type": "ADDED", "object": pod}, separators=(",", ":")).encode() for pod in pods]
    print(f"{len(pods):,} pods, {len(page):,} bytes\n")
    return {
        "json.loads": lambda: json.loads(page),
        "list, as structs": lambda: decode_page(page, Pod, PODS),
        "list, as dicts": lambda: decode_page(page, dict, PODS),
        "json.loads, by line": lambda: [json.loads(line) for line in lines],
        "watch, as structs": lambda: [decode_watch_event(line, Pod) for line in lines],
        "watch, as dicts": lambda: [decode_watch_event(line, dict) for line in lines],
    }


def measure_cpu(decode: Callable[[], object]) -> float:
    """Return the CPU seconds of one call."""
    gc.collect()
    started = time.process_time()
    decode()
    return time.process_time() - started


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pods", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=15)
    args = parser.parse_args()
    variants = make_variants([make_pod(number) for number in range(args.pods)])
    times: dict[str, list[float]] = {name: [measure_cpu(decode)] for name, decode in variants.items()}
    for _ in range(args.rounds):
        for name, decode in variants.items():
            times[name].append(measure_cpu(decode))
    baseline = statistics.median(times["json.loads"][1:])
    print(f"CPU, median of {args.rounds} (minimum to maximum), and ratio to json.loads\n")
    for name, (_, *samples) in times.items():
        median = statistics.median(samples)
        range_text = f"({min(samples) * 1000:.1f} to {max(samples) * 1000:.1f})"
        print(f"  {name:<20} {median * 1000:7.1f} ms  {range_text:<18} {median / baseline:6.3f} ×")


if __name__ == "__main__":
    main()
