"""Measures the embedded cluster: time to the first training step, pod starts in groups and all at once, idle cost.

    python -m bench.run [first pods burst idle] [--rounds 10]

The variants alternate, so that other load on the machine affects all of them equally. Nothing is asserted.
"""

from __future__ import annotations

import argparse
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from bench.startup_stages import STAGES, read_stage_times

ROOT = Path(__file__).parents[1]
QUICKSTART = ROOT / "examples" / "quickstart"
FIRST_STEP = "step 1 "


def measure_empty_python() -> float:
    """Return the seconds that an empty Python program takes."""
    started = time.monotonic()
    subprocess.run(["python3", "-c", "pass"], check=True)
    return time.monotonic() - started


def measure_plain_trainers() -> float:
    """Return the seconds to the first step of both trainers, started as plain processes."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    shared = {
        **os.environ,
        "WORKER_INSTANCES": "127.0.0.1,127.0.0.1",
        "WORKER_PORTS": str(port),
        "TRAININGJOB_REPLICA_RESTARTCOUNT": "0",
    }
    started = time.monotonic()
    workers = [
        subprocess.Popen(
            ["python3", str(QUICKSTART / "train.py")],
            env={**shared, "TRAININGJOB_REPLICA_INDEX": str(rank)},
            stdout=subprocess.PIPE if rank == 0 else subprocess.DEVNULL,
            text=True,
        )
        for rank in range(2)
    ]
    return _wait_first_step(workers) - started


def measure_pliant_run(*, module: tuple[str, ...] = ("pliant",)) -> float:
    """Return the seconds to the first step of the quickstart with `pliant run`."""
    started = time.monotonic()
    run = subprocess.Popen(
        [sys.executable, "-m", *module, "run", str(QUICKSTART / "job.yaml")],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    return _wait_first_step([run]) - started


def measure_stages() -> dict[str, float]:
    """Return the seconds of each stage of one run by its label; overlapping time counts for the later stage."""
    with tempfile.TemporaryDirectory() as folder:
        times = Path(folder) / "times"
        started = time.monotonic()
        seconds = measure_pliant_run(module=("bench.startup_stages", str(times)))
        ends = {**read_stage_times(times), "first-step": started + seconds}
    durations, previous = {}, started
    for stage, label in STAGES.items():
        durations[label] = max(0.0, ends[stage] - previous)
        previous = max(previous, ends[stage])
    return durations


def _wait_first_step(processes: list[subprocess.Popen[str]]) -> float:
    """Return the time at which the first process prints its first step; wait until all processes exit."""
    first_process = processes[0]
    assert first_process.stdout is not None
    first_step = next((time.monotonic() for line in first_process.stdout if FIRST_STEP in line), float("nan"))
    for _ in first_process.stdout:
        pass
    for process in processes:
        if process.wait() != 0:
            raise SystemExit(f"{process.args!r} exited with {process.returncode}")
    return first_step


VARIANTS: dict[str, Callable[[], float]] = {
    "python3 -c pass": measure_empty_python,
    "two plain processes": measure_plain_trainers,
    "pliant run": measure_pliant_run,
}


def measure_first_step(rounds: int) -> None:
    """Measure and print the time from `pliant run` to the first training step, by stage."""
    times: dict[str, list[float]] = {name: [] for name in VARIANTS}
    stages: dict[str, list[float]] = {label: [] for label in STAGES.values()}
    for measure in VARIANTS.values():
        measure()  # once unmeasured: fills byte code and file caches
    for _ in range(rounds):
        for name, measure in VARIANTS.items():
            times[name].append(measure())
        for label, seconds in measure_stages().items():
            stages[label].append(seconds)
    baseline = statistics.median(times["two plain processes"])
    print(f"time to the first training step, median of {rounds} (minimum to maximum), and ratio to plain processes\n")
    for name, samples in times.items():
        median = statistics.median(samples)
        range_text = f"({min(samples) * 1000:.0f} to {max(samples) * 1000:.0f})"
        print(f"  {name:<26} {median * 1000:6.0f} ms  {range_text:<16} {median / baseline:6.2f} ×")
    medians = {label: statistics.median(seconds) for label, seconds in stages.items()}
    print("\nstages: median, and share of the sum of the medians\n")
    for label, median in medians.items():
        print(f"  {label:<26} {median * 1000:6.0f} ms  {median / sum(medians.values()):16.0%}")


def load_sections() -> dict[str, Callable[[int], None]]:
    """Return the benchmarks by section, in the order in which they run."""
    # Imported here: these modules load the whole embedded cluster.
    from bench.idle import measure_idle
    from bench.podstarts import measure_burst, measure_groups

    return {"first": measure_first_step, "pods": measure_groups, "burst": measure_burst, "idle": measure_idle}


def main(arguments: Iterable[str]) -> None:
    """Measure and print tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    sections = load_sections()
    parser.add_argument("sections", nargs="*", metavar="SECTION", help=f"any of {', '.join(sections)} (default: all)")
    parser.add_argument("--rounds", type=int, default=10)
    args = parser.parse_args(list(arguments))
    if unknown := set(args.sections) - set(sections):
        parser.error(f"unknown section {', '.join(unknown)}; known: {', '.join(sections)}")
    for number, name in enumerate(args.sections or sections):
        print(end="\n" if number else "")
        sections[name](args.rounds)


if __name__ == "__main__":
    main(sys.argv[1:])
