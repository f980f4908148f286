"""What a job under a real torchrun survives: resizes, the loss of each worker, of its store and of a node.

python -m tests.real_frameworks.survival --torchrun /usr/bin/torchrun [--kills 50]
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pliant
from pliant.api.cluster import TemporaryCluster
from pliant.api.job import JobHandle
from pliant.engine.restart.restarts import STABLE_RUN

TRAINER = Path(__file__).with_name("survival_trainer.py")
PATIENCE = 120.0
"""Seconds within which training goes on after anything that happens."""


class Training:
    """One job of torchrun, and the log that its workers write together."""

    def __init__(
        self, cluster: TemporaryCluster, name: str, folder: Path, torchrun: str, *, steps: int, size: int
    ) -> None:
        self.name, self.folder = name, folder / name
        self.folder.mkdir()
        self.folder.chmod(0o777)
        self.job: JobHandle = cluster.submit(_manifest(name, torchrun, self.folder, steps=steps, size=size))

    def events(self, what: str = "") -> list[dict[str, Any]]:
        path = self.folder / "events.jsonl"
        lines = path.read_text().splitlines() if path.exists() else []
        entries = [json.loads(line) for line in lines if line.endswith("}")]
        return [entry for entry in entries if not what or entry["what"] == what]

    @property
    def step(self) -> int:
        return max((entry["step"] for entry in self.events("step")), default=0)

    def wait(self, holds: Callable[[], bool], what: str, patience: float = PATIENCE) -> None:
        deadline = time.monotonic() + patience
        while not holds():
            if time.monotonic() > deadline:
                raise AssertionError(f"{self.name}: never {what}\n{self.job.why()}")
            time.sleep(0.1)

    def wait_steps(self, more: int = 10) -> None:
        target = self.step + more
        self.wait(lambda: self.step >= target, f"step {target}")

    def survive(self, what: str, happen: Callable[[], None], world: int) -> tuple[float, int]:
        """Let something happen; return the seconds and the rounds until `world` workers train."""
        self.wait_steps()
        before, started = len(self.events()), time.monotonic()
        happen()

        def has_recovered() -> bool:
            new = self.events()[before:]
            begun = [number for number, entry in enumerate(new) if entry["what"] == "start" and entry["world"] == world]
            return bool(begun) and any(entry["what"] == "step" for entry in new[begun[-1] :])

        self.wait(has_recovered, f"trained by {world} after {what}")
        new = self.events()[before:]
        rounds = sum(entry["what"] == "start" and entry["rank"] == 0 for entry in new)
        return new[-1]["t"] - started, rounds

    def processes(self, member: str) -> list[int]:
        """Return the processes of one replica."""
        mark, found = f"MEMBER={self.name}-{member}".encode(), []
        own = f"STATE_DIR={self.folder}".encode()
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    variables = (entry / "environ").read_bytes().split(b"\0")
                except OSError:
                    continue
                if mark in variables and own in variables:
                    found.append(int(entry.name))
        return found

    def kill(self, member: str) -> None:
        for process in self.processes(member):
            try:
                os.kill(process, signal.SIGKILL)
            except ProcessLookupError:
                continue

    def scale(self, size: int) -> None:
        self.job.scale(size)

    def loss(self) -> float:
        self.wait(lambda: bool(self.events("done")), "trained to the end", 900)
        return float(self.events("done")[-1]["loss"])


def _manifest(name: str, torchrun: str, folder: Path, *, steps: int, size: int) -> dict[str, Any]:
    variables = {"STEPS": steps, "STATE_DIR": folder, "OMP_NUM_THREADS": 1, "PET_NPROC_PER_NODE": 1}
    env: list[dict[str, Any]] = [{"name": key, "value": str(value)} for key, value in variables.items()]
    env.append({"name": "MEMBER", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}})
    if "/usr/bin/" in torchrun:  # torch 1.13 does not know Python 3.11
        env += [{"name": "PET_REDIRECTS", "value": "1"}, {"name": "PET_TEE", "value": "1"}]
    container = {"name": "trainer", "image": "torch", "command": [torchrun, str(TRAINER)], "env": env}
    worker = {
        "replicas": size,
        "minReplicas": 1,
        "maxReplicas": 4,
        "restartPolicy": "OnFailure",
        "restartScope": "Pod",
        "completePolicy": "Any",
        "template": {"spec": {"containers": [container]}},
    }
    return {
        "apiVersion": "elasticdeeplearning.ai/v1",
        "kind": "AITrainingJob",
        "metadata": {"name": name},
        "spec": {"frameworkType": "pytorch", "replicaSpecs": {"worker": worker}},
    }


def report(what: str, result: tuple[float, int]) -> None:
    print(f"{what:<28} trains again after {result[0]:5.1f} s, {result[1]} round(s)", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--torchrun", default="/usr/bin/torchrun")
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--steps", type=int, default=100_000)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as place, pliant.cluster(nodes=2, workspace=place) as cluster:
        folder = Path(place)
        folder.chmod(0o755)
        training = Training(cluster, "ddp", folder, args.torchrun, steps=args.steps, size=2)
        training.wait(lambda: training.step > 0, "trained")
        report("2 to 4 workers", training.survive("growing", lambda: training.scale(4), 4))
        report("4 to 2 workers", training.survive("shrinking", lambda: training.scale(2), 2))
        for member in ("worker-1", "worker-0"):
            report(f"kill -9 {member}", training.survive(member, partial(training.kill, member), 2))
        report("kill -9 the store", training.survive("the store", lambda: training.kill("rendezvous-0"), 2))
        for number in range(args.kills):
            time.sleep(STABLE_RUN.total_seconds())  # a replica that is lost earlier is replaced with backoff
            report(f"kill {number + 1} of worker-0", training.survive("a kill", lambda: training.kill("worker-0"), 2))
        print(training.job.why())


if __name__ == "__main__":
    main()
