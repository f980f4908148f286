"""How long from `pliant run` to the first training step, beside the same trainers started by hand.

    python bench/run.py [--rounds 10]

Each round runs every contender once, so that whatever else the machine does falls on all of them alike. Nothing is
asserted: numbers are for people.
"""

from __future__ import annotations

import argparse
import os
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parents[1]
QUICKSTART = ROOT / "examples" / "quickstart"
FIRST_STEP = "step 1 "


def bare_python() -> float:
    """A Python that starts and does nothing."""
    began = time.perf_counter()
    subprocess.run(["python3", "-c", "pass"], check=True)
    return time.perf_counter() - began


def by_hand() -> float:
    """Both trainers as plain processes on one machine."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    shared = {
        **os.environ,
        "WORKER_INSTANCES": "127.0.0.1,127.0.0.1",
        "WORKER_PORTS": str(port),
        "TRAININGJOB_REPLICA_RESTARTCOUNT": "0",
    }
    began = time.perf_counter()
    workers = [
        subprocess.Popen(
            ["python3", str(QUICKSTART / "train.py")],
            env={**shared, "TRAININGJOB_REPLICA_INDEX": str(rank)},
            stdout=subprocess.PIPE if rank == 0 else subprocess.DEVNULL,
            text=True,
        )
        for rank in range(2)
    ]
    return _first_step(workers, began)


def with_pliant() -> float:
    """The quickstart on a throw-away cluster."""
    began = time.perf_counter()
    run = subprocess.Popen(
        [sys.executable, "-m", "pliant", "run", str(QUICKSTART / "job.yaml")],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    return _first_step([run], began)


def _first_step(processes: list[subprocess.Popen[str]], began: float) -> float:
    """Seconds until the first process prints its first step; then everything runs to its end."""
    speaker = processes[0]
    assert speaker.stdout is not None
    took = next((time.perf_counter() - began for line in speaker.stdout if FIRST_STEP in line), float("nan"))
    for _ in speaker.stdout:
        pass
    for process in processes:
        if process.wait() != 0:
            raise SystemExit(f"{process.args!r} ended with {process.returncode}")
    return took


CONTENDERS: dict[str, Callable[[], float]] = {
    "python3 -c pass": bare_python,
    "two trainers by hand": by_hand,
    "pliant run": with_pliant,
}


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10)
    rounds = parser.parse_args().rounds
    times: dict[str, list[float]] = {name: [] for name in CONTENDERS}
    for contender in CONTENDERS.values():
        contender()  # once unmeasured: byte code and file caches are warm for everyone
    for _ in range(rounds):
        for name, contender in CONTENDERS.items():
            times[name].append(contender())
    floor = statistics.median(times["two trainers by hand"])
    print(f"to the first training step, median of {rounds} (fastest to slowest), and its ratio to by hand\n")
    for name, taken in times.items():
        middle = statistics.median(taken)
        spread = f"({min(taken) * 1000:.0f} to {max(taken) * 1000:.0f})"
        print(f"  {name:<22} {middle * 1000:6.0f} ms  {spread:<16} {middle / floor:6.2f} ×")


if __name__ == "__main__":
    main()
