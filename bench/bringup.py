"""How long until 300 jobs of four pods run, beside a floor that only writes, and beside kopf.

    python -m bench.bringup [--jobs 300] [--pairs 10] [--kopf 3] [--embedded]

Every run has a fresh server, the same submitter and the same stand-in for kubelets. Each round runs every
contender once, so that whatever else the machine does falls on all of them alike. Nothing is asserted: numbers are
for people.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.crowd import Crowd
from bench.recipe import PODS_PER_JOB, record, save
from bench.servers import Calls, Server, calls, embedded, real, version
from pliant.cli.apply import install_crds
from pliant.kube.client import KubeClient
from pliant.kube.config import transport_for
from pliant.runtime.clock import SystemClock
from tests.controlplane.build import cache_folder
from tests.scenarios.host import cpu_ticks

ROOT = Path(__file__).parents[1]
KOPF = "1.45.2"
WARM_UP = 8
"""Jobs before the ones that count: when they run, everybody is there and knows everybody."""
FLOOR, OURS, PEER = "floor", "pliant", "kopf"


@dataclass(frozen=True)
class Contender:
    """A program that is to bring jobs up."""

    name: str
    command: tuple[str, ...]
    is_told: bool = False
    """Whether it learns of jobs from us instead of from the server."""


@dataclass(frozen=True)
class Run:
    """What one bring-up took."""

    seconds: float
    cpu: float
    peak: float
    """MiB."""
    calls: Calls


def contenders(with_kopf: bool) -> dict[str, Contender]:
    """Who takes part; KUBECONFIG and RECIPE stand for the files of each run."""
    python = sys.executable
    found = [
        Contender(FLOOR, (python, "-m", "bench.floor", "KUBECONFIG", "RECIPE"), is_told=True),
        Contender(OURS, (python, "-m", "pliant", "operator", "--kubeconfig", "KUBECONFIG")),
    ]
    if with_kopf:
        found.append(Contender(PEER, (str(kopf_python()), "-m", "bench.kopf_peer", "KUBECONFIG", "RECIPE")))
    return {each.name: each for each in found}


def kopf_python() -> Path:
    """The Python of an environment that has kopf, made once."""
    home = cache_folder(os.environ) / "bench" / f"kopf-{KOPF}"
    python = home / "bin" / "python"
    if not (home / "complete").exists():
        print(f"installing kopf {KOPF} into {home} (once)", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", "--clear", home], check=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", f"kopf=={KOPF}"], check=True)
        (home / "complete").touch()
    return python


@contextmanager
def running(command: tuple[str, ...], log: Path, *, told: bool = False) -> Iterator[subprocess.Popen[str]]:
    """A program at work; killed at the end, for nothing of it matters any more."""
    stdin = subprocess.PIPE if told else subprocess.DEVNULL
    with (
        log.open("w") as output,
        subprocess.Popen(command, cwd=ROOT, stdin=stdin, stdout=output, stderr=output, text=True) as process,
    ):
        try:
            yield process
        finally:
            process.kill()


async def measure(contender: Contender, server: Server, jobs: int, folder: Path) -> Run:
    """Let one contender bring up that many jobs on a server that has nothing to do yet."""
    transport = transport_for(server.kubeconfig, None, SystemClock().now)
    client = KubeClient(transport)
    known = {"KUBECONFIG": str(server.kubeconfig), "RECIPE": str(folder / "recipe.json")}
    command = tuple(known.get(word, word) for word in contender.command)
    kubelet = (sys.executable, "-m", "bench.standin", str(server.kubeconfig))
    try:
        await install_crds(client)
        crowd = Crowd(client)
        async with asyncio.TaskGroup() as tasks:
            following = tasks.create_task(crowd.follow())
            await crowd.wait_served()
            with (
                running(kubelet, folder / "standin.log"),
                running(command, folder / f"{contender.name}.log", told=contender.is_told) as process,
            ):
                await crowd.bring_up([f"bench-9{number:04}" for number in range(WARM_UP)], process.stdin)
                await server.settle()
                before, used = await calls(client), cpu_ticks(process.pid)
                seconds = await crowd.bring_up([f"bench-{number:05}" for number in range(jobs)], process.stdin)
                await server.settle()
                after = await calls(client)
                cpu, peak = (cpu_ticks(process.pid) - used) / 100, _peak(process.pid)
            following.cancel()
    finally:
        await transport.aclose()
    return Run(seconds, cpu, peak, after - before)


def _peak(process: int) -> float:
    """The most memory a process ever held, in MiB."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) / 1024


def rounds(args: argparse.Namespace, folder: Path) -> dict[str, list[Run]]:
    """Run everybody in turn, the floor and us alternating in who is first."""
    taking_part = contenders(with_kopf=args.kopf > 0)
    runs: dict[str, list[Run]] = {name: [] for name in taking_part}
    for number in range(args.pairs):
        pair = [FLOOR, OURS] if number % 2 else [OURS, FLOOR]
        for name in [*pair, *([PEER] if number < args.kopf else [])]:
            with (embedded if args.embedded else real)() as server:
                run = asyncio.run(measure(taking_part[name], server, args.jobs, folder))
            runs[name].append(run)
            print(f"  {name:<7} {run.seconds:6.2f} s  load {os.getloadavg()[0]:.1f}", file=sys.stderr, flush=True)
    return runs


def report(runs: dict[str, list[Run]], jobs: int) -> None:
    """Print medians and spreads."""
    print(f"{'':<8}{'seconds':<22}{'to the floor, same round':<26}{'CPU s':>6}{'peak MiB':>10}")
    for name, taken in runs.items():
        ratios = [run.seconds / floor.seconds for run, floor in zip(taken, runs[FLOOR], strict=False)]
        cpu, peak = (statistics.median(column) for column in zip(*((r.cpu, r.peak) for r in taken), strict=True))
        seconds = spread([run.seconds for run in taken])
        print(f"{name:<8}{seconds:<22}{spread(ratios) if name != FLOOR else '':<26}{cpu:6.2f}{peak:10.0f}")
    print("\ncalls per job, counted by the server (submission and stand-in included)")
    for name, taken in runs.items():
        counted = sum((run.calls for run in taken), Calls())
        words = (f"{call} {number / jobs / len(taken):g}" for call, number in sorted(counted.items()))
        print(f"{name:<8}{', '.join(words)}")


def spread(numbers: Sequence[float]) -> str:
    """The median, and from where to where they go."""
    return f"{statistics.median(numbers):.2f} ({min(numbers):.2f} to {max(numbers):.2f})"


def sync_milliseconds(folder: Path) -> float:
    """How long the disk takes to keep a promise."""
    taken = []
    with (folder / "sync").open("wb", buffering=0) as file:
        for _ in range(50):
            file.write(b"x" * 4096)
            began = time.perf_counter()
            os.fdatasync(file)
            taken.append(time.perf_counter() - began)
    return statistics.median(taken) * 1000


def main() -> None:
    """Measure, and print tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=300)
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--kopf", type=int, default=3, metavar="ROUNDS", help="in how many rounds kopf takes part")
    parser.add_argument("--embedded", action="store_true", help="on the embedded server")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pliant-bench-") as name:
        folder = Path(name)
        (folder / "recipe.json").write_text(save(asyncio.run(record())))
        load, sync = os.getloadavg()[0], sync_milliseconds(folder)
        runs = rounds(args, folder)
    print(
        f"{args.jobs} jobs × {PODS_PER_JOB} pods; {version(embedded=args.embedded)}; {os.cpu_count()} cores;",
        end=" ",
    )
    print(f"load {load:.1f} before, {os.getloadavg()[0]:.1f} after; fdatasync {sync:.1f} ms")
    print(f"median of {args.pairs} rounds (least to most)\n")
    report(runs, args.jobs)


if __name__ == "__main__":
    main()
