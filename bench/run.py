"""What the laptop cluster costs: time to the first training step, pods started one by one and all at once, rest.

    python -m bench.run [first pods burst idle] [--rounds 10]

Contenders take turns, so that whatever else the machine does falls on all of them alike. Nothing is asserted:
numbers are for people.
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

from bench.stages import STAGES, read_notes

ROOT = Path(__file__).parents[1]
QUICKSTART = ROOT / "examples" / "quickstart"
FIRST_STEP = "step 1 "


def bare_python() -> float:
    """A Python that starts and does nothing."""
    began = time.monotonic()
    subprocess.run(["python3", "-c", "pass"], check=True)
    return time.monotonic() - began


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
    began = time.monotonic()
    workers = [
        subprocess.Popen(
            ["python3", str(QUICKSTART / "train.py")],
            env={**shared, "TRAININGJOB_REPLICA_INDEX": str(rank)},
            stdout=subprocess.PIPE if rank == 0 else subprocess.DEVNULL,
            text=True,
        )
        for rank in range(2)
    ]
    return _first_step(workers) - began


def with_pliant(*, module: tuple[str, ...] = ("pliant",)) -> float:
    """The quickstart on a throw-away cluster."""
    began = time.monotonic()
    run = subprocess.Popen(
        [sys.executable, "-m", *module, "run", str(QUICKSTART / "job.yaml")],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    return _first_step([run]) - began


def shares() -> dict[str, float]:
    """Seconds that each stage of one run took, by the words for it; what overlaps counts for the later one."""
    with tempfile.TemporaryDirectory() as folder:
        notes = Path(folder) / "notes"
        began = time.monotonic()
        took = with_pliant(module=("bench.stages", str(notes)))
        ends = {**read_notes(notes), "stepped": began + took}
    seconds, before = {}, began
    for stage, words in STAGES.items():
        seconds[words] = max(0.0, ends[stage] - before)
        before = max(before, ends[stage])
    return seconds


def _first_step(processes: list[subprocess.Popen[str]]) -> float:
    """The moment at which the first process prints its first step; then everything runs to its end."""
    speaker = processes[0]
    assert speaker.stdout is not None
    seen = next((time.monotonic() for line in speaker.stdout if FIRST_STEP in line), float("nan"))
    for _ in speaker.stdout:
        pass
    for process in processes:
        if process.wait() != 0:
            raise SystemExit(f"{process.args!r} ended with {process.returncode}")
    return seen


CONTENDERS: dict[str, Callable[[], float]] = {
    "python3 -c pass": bare_python,
    "two trainers by hand": by_hand,
    "pliant run": with_pliant,
}


def first(rounds: int) -> None:
    """How long from `pliant run` to the first training step, and with what."""
    times: dict[str, list[float]] = {name: [] for name in CONTENDERS}
    stages: dict[str, list[float]] = {words: [] for words in STAGES.values()}
    for contender in CONTENDERS.values():
        contender()  # once unmeasured: byte code and file caches are warm for everyone
    for _ in range(rounds):
        for name, contender in CONTENDERS.items():
            times[name].append(contender())
        for words, seconds in shares().items():
            stages[words].append(seconds)
    floor = statistics.median(times["two trainers by hand"])
    print(f"to the first training step, median of {rounds} (fastest to slowest), and its ratio to by hand\n")
    for name, taken in times.items():
        middle = statistics.median(taken)
        spread = f"({min(taken) * 1000:.0f} to {max(taken) * 1000:.0f})"
        print(f"  {name:<26} {middle * 1000:6.0f} ms  {spread:<16} {middle / floor:6.2f} ×")
    middles = {words: statistics.median(seconds) for words, seconds in stages.items()}
    print("\nwhere it goes, medians, and shares of their sum\n")
    for words, middle in middles.items():
        print(f"  {words:<26} {middle * 1000:6.0f} ms  {middle / sum(middles.values()):16.0%}")


def sections() -> dict[str, Callable[[int], None]]:
    """What can be measured, in this order."""
    # Here, so that a run with the others left out does not wait for the modules of a whole cluster.
    from bench.idle import idle
    from bench.podstarts import burst, groups

    return {"first": first, "pods": groups, "burst": burst, "idle": idle}


def main(words: Iterable[str]) -> None:
    """Measure, and print tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    known = sections()
    parser.add_argument("sections", nargs="*", metavar="SECTION", help=f"of {', '.join(known)}; all of them")
    parser.add_argument("--rounds", type=int, default=10)
    args = parser.parse_args(list(words))
    if unknown := set(args.sections) - set(known):
        parser.error(f"there is no section {', '.join(unknown)}; there are {', '.join(known)}")
    for number, name in enumerate(args.sections or known):
        print(end="\n" if number else "")
        known[name](args.rounds)


if __name__ == "__main__":
    main(sys.argv[1:])
