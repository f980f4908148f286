"""How much CPU our decoding of pods takes, beside `json.loads` of the same bytes.

    python bench/decode.py [--pods 1000] [--rounds 15]

Each round decodes with every contender once, so that whatever else the machine does falls on all of them alike.
The collector is on, as it is in an operator. Nothing is asserted: numbers are for people.
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

WHEN = "2030-01-01T00:00:00Z"
MANAGERS = ("pliant", "kube-scheduler", "kubelet")


def pod(number: int) -> dict[str, Any]:
    """A training pod as a real server shows it: environment, volumes, conditions, who manages which field."""
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
        {"type": kind, "status": "True", "lastTransitionTime": WHEN, "lastProbeTime": None}
        for kind in ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
    ]
    status = {
        "name": "aitj-main",
        "state": {"running": {"startedAt": WHEN}},
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
            "creationTimestamp": WHEN,
            "labels": {f"example.org/label-{i}": f"value-{number}-{i}" for i in range(8)},
            "ownerReferences": [{**owner, "uid": f"{number // 8:08x}", "controller": True}],
            "managedFields": [_managed(manager) for manager in MANAGERS],
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


def _managed(manager: str) -> dict[str, Any]:
    fields: dict[str, Any] = {
        f"f:field-{i}": {".": {}, f'k:{{"name":"{i}"}}': {".": {}, "f:value": {}}} for i in range(5)
    }
    managed = {"manager": manager, "operation": "Update", "apiVersion": "v1", "time": WHEN}
    return {**managed, "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": fields}}


def contenders(pods: list[dict[str, Any]]) -> dict[str, Callable[[], object]]:
    """What to measure: the whole list at once, and the same pods as lines of a watch."""
    page = json.dumps({"metadata": {"resourceVersion": "1"}, "items": pods}, separators=(",", ":")).encode()
    lines = [json.dumps({"type": "ADDED", "object": one}, separators=(",", ":")).encode() for one in pods]
    print(f"{len(pods):,} pods, {len(page):,} bytes\n")
    return {
        "json.loads": lambda: json.loads(page),
        "list, as structs": lambda: decode_page(page, Pod, PODS),
        "list, as dicts": lambda: decode_page(page, dict, PODS),
        "json.loads, by line": lambda: [json.loads(line) for line in lines],
        "watch, as structs": lambda: [decode_watch_event(line, Pod) for line in lines],
        "watch, as dicts": lambda: [decode_watch_event(line, dict) for line in lines],
    }


def seconds_of(work: Callable[[], object]) -> float:
    """CPU seconds of one go."""
    gc.collect()
    began = time.process_time()
    work()
    return time.process_time() - began


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pods", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=15)
    args = parser.parse_args()
    works = contenders([pod(number) for number in range(args.pods)])
    times: dict[str, list[float]] = {name: [seconds_of(work)] for name, work in works.items()}
    for _ in range(args.rounds):
        for name, work in works.items():
            times[name].append(seconds_of(work))
    floor = statistics.median(times["json.loads"][1:])
    print(f"CPU, median of {args.rounds} (fastest to slowest), and its ratio to json.loads\n")
    for name, (_, *taken) in times.items():
        middle = statistics.median(taken)
        spread = f"({min(taken) * 1000:.1f} to {max(taken) * 1000:.1f})"
        print(f"  {name:<20} {middle * 1000:7.1f} ms  {spread:<18} {middle / floor:6.3f} ×")


if __name__ == "__main__":
    main()
