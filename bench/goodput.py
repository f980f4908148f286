"""Measures how much of the time of workers counts in the end, while one of them is killed again and again.

    python -m bench.goodput [--intervals 120 60 30 15] [--modes joining restarting] [--kills 6] [--plot FILE.svg]

Goodput is the number of worker-steps that count, divided by the number that all workers could have made in the
elapsed time. Eight synthetic workers make steps of a fixed time in lockstep. In each interval, a random worker is
killed with SIGKILL.

- joining: the lost worker is replaced, the others continue as soon as they learn the membership without it;
- restarting: all workers restart and continue from a checkpoint, which is written every 10 steps;
- by hand: as restarting, after the time that a person needs to notice the failure (computed, not run).
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pliant
from pliant.cli.output.charts.panels import ChartLine, ChartPanel
from pliant.cli.output.charts.svg import render_svg

ROOT = Path(__file__).parents[1]
MARK = "PLIANT_BENCH_GOODPUT"
STEP_SECONDS, WORKERS, CHECKPOINT_STEPS = 0.25, 8, 10
NOTICE_SECONDS = 300.0
"""The time that a person needs to notice a failed job and to submit it again."""


@dataclass(frozen=True)
class Outcome:
    mode: str
    interval: float
    kills: int
    elapsed: float
    steps: int
    """Worker-steps that count."""

    @property
    def goodput(self) -> float:
        return self.steps * STEP_SECONDS / (WORKERS * self.elapsed)


class MeasuredJob:
    """A job of synthetic workers, of which one is killed in each interval."""

    def __init__(self, cluster: Any, mode: str, interval: float, folder: Path) -> None:
        self.mode, self.interval, self.folder = mode, interval, folder
        self.name = f"{mode}-{interval:g}"
        folder.mkdir()
        self.job = cluster.submit(self._manifest())
        self.random = random.Random(self.name)
        self.kills = 0
        self.started_at = 0.0
        self.next_kill_at = 0.0

    def _manifest(self) -> dict[str, Any]:
        variables = {"STEP_SECONDS": STEP_SECONDS, "LOG_DIR": self.folder, "PYTHONPATH": ROOT, MARK: self.name}
        variables |= {"FIXED_WORKERS": WORKERS} if self.mode == "restarting" else {}
        container = {
            "name": "trainer",
            "image": "python:3.12-slim",
            "command": [sys.executable, str(ROOT / "bench" / "goodput_trainer.py")],
            "env": [{"name": name, "value": str(value)} for name, value in variables.items()],
            "resources": {"requests": {"cpu": "10m"}},
        }
        worker = {
            "replicas": WORKERS,
            "minReplicas": 1,
            "maxReplicas": WORKERS,
            "restartPolicy": "Always",
            "restartScope": "Pod" if self.mode == "joining" else "All",
            "template": {"spec": {"containers": [container]}},
        }
        return {
            "apiVersion": "elasticdeeplearning.ai/v1",
            "kind": "AITrainingJob",
            "metadata": {"name": self.name},
            "spec": {"replicaSpecs": {"worker": worker}},
        }

    def start(self) -> None:
        """Wait until all workers train, then begin to measure."""
        deadline = time.monotonic() + 120
        while not any(entry.get("members") == WORKERS for entry in self.entries()):
            if time.monotonic() > deadline:
                raise SystemExit(f"{self.name} does not train: {self.job.why()}")
            time.sleep(0.2)
        self.started_at = time.time()
        self.next_kill_at = self.started_at + self.interval

    def entries(self) -> list[dict[str, Any]]:
        return [json.loads(line) for log in self.folder.glob("*.jsonl") for line in log.read_text().splitlines()]

    def kill_one(self) -> None:
        processes = find_processes(self.name)
        if processes:
            os.kill(self.random.choice(processes), signal.SIGKILL)
            self.kills += 1
        self.next_kill_at += self.interval

    def outcome(self) -> Outcome:
        """Return what counts: a step that was made again after a restart counts once."""
        elapsed = time.time() - self.started_at
        made = {entry["step"]: entry for entry in self.entries() if "step" in entry and entry["at"] >= self.started_at}
        return Outcome(self.mode, self.interval, self.kills, elapsed, sum(each["members"] for each in made.values()))


def find_processes(name: str) -> list[int]:
    """Return the workers of a job; not the shells and shims around them."""
    mark, found = f"{MARK}={name}".encode(), []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                is_marked = mark in (entry / "environ").read_bytes().split(b"\0")
                if is_marked and b"goodput_trainer.py" in (entry / "cmdline").read_bytes():
                    found.append(int(entry.name))
            except OSError:
                continue
    return sorted(found)


def measure(modes: list[str], intervals: list[float], kills: int) -> list[Outcome]:
    """Run all jobs at the same time: they sleep most of it."""
    outcomes: list[Outcome] = []
    with tempfile.TemporaryDirectory() as folder, pliant.cluster(nodes=2, workspace=folder) as cluster:
        jobs = [
            MeasuredJob(cluster, mode, each, Path(folder) / f"{mode}-{each:g}") for mode in modes for each in intervals
        ]
        for job in jobs:
            job.start()
        while jobs:
            for job in [*jobs]:
                if time.time() < job.next_kill_at:
                    continue
                if job.kills >= kills:
                    outcomes.append(job.outcome())
                    print_outcome(outcomes[-1])
                    job.job.delete()
                    jobs.remove(job)
                else:
                    job.kill_one()
            time.sleep(0.05)
    return outcomes


def print_outcome(outcome: Outcome) -> None:
    print(
        f"{outcome.mode:>11}  a kill every {outcome.interval:>4g} s: goodput {outcome.goodput:.3f}"
        f"  ({outcome.kills} kills in {outcome.elapsed:.0f} s)",
        flush=True,
    )


def estimate_by_hand(interval: float) -> float:
    """Return the goodput if a person restarts the job, which is killed again after the same interval."""
    lost = CHECKPOINT_STEPS * STEP_SECONDS / 2
    return max(interval - lost, 0.0) / (interval + NOTICE_SECONDS)


def draw(outcomes: list[Outcome], intervals: list[float]) -> str:
    """Draw goodput over the interval between kills."""
    measured = {
        mode: sorted((each.interval, each.goodput) for each in outcomes if each.mode == mode)
        for mode in dict.fromkeys(each.mode for each in outcomes)
    }
    measured["by hand (computed)"] = sorted((each, estimate_by_hand(each)) for each in intervals)
    lines = tuple(
        ChartLine(name=mode, times=[x for x, _ in points], values=[100 * y for _, y in points])
        for mode, points in measured.items()
    )
    panel = ChartPanel(title="goodput", lines=lines, unit=" %", min_axis_max=100.0, is_stepped=False)
    return render_svg([panel], "Goodput with a kill in every interval of this length", max(intervals))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--intervals", type=float, nargs="+", default=[120, 60, 30, 15])
    parser.add_argument("--modes", nargs="+", choices=["joining", "restarting"], default=["joining", "restarting"])
    parser.add_argument("--kills", type=int, default=6)
    parser.add_argument("--plot", type=Path, help="SVG file to draw")
    args = parser.parse_args()
    outcomes = measure(args.modes, args.intervals, args.kills)
    if args.plot:
        args.plot.write_text(draw(outcomes, args.intervals), encoding="utf-8")
    for interval in args.intervals:
        print(f"    by hand  a kill every {interval:>4g} s: goodput {estimate_by_hand(interval):.3f}  (computed)")


if __name__ == "__main__":
    main()
