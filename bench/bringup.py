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
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp

from bench.crowd import Crowd
from bench.recipe import PODS_PER_JOB, record, save
from bench.servers import TICKS, Calls, Server, calls, embedded, real, version
from pliant.cli.cluster.apply import install_crds
from pliant.kube.client import KubeClient
from pliant.kube.client_config import create_transport
from pliant.runtime.clock import SystemClock
from tests.controlplane.build import cache_folder
from tests.scenarios.host import cpu_ticks

ROOT = Path(__file__).parents[1]
KOPF = "1.45.2"
WARM_UP = 8
"""Jobs before the ones that count: when they run, everybody is there and knows everybody."""
with socket.create_server(("127.0.0.1", 0)) as probe:
    PAGES = f"127.0.0.1:{probe.getsockname()[1]}"
"""Where our operator tells how often it looked."""
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
    server_cpu: float
    calls: Calls
    looks: float
    """Reconciliations, where somebody counts them."""


def contenders(with_kopf: bool) -> dict[str, Contender]:
    """Who takes part; KUBECONFIG and RECIPE stand for the files of each run."""
    python, pages = sys.executable, ("--metrics-bind-address", PAGES)
    found = [
        Contender(FLOOR, (python, "-m", "bench.floor", "KUBECONFIG", "RECIPE"), is_told=True),
        Contender(OURS, (python, "-m", "pliant", "operator", "--kubeconfig", "KUBECONFIG", *pages)),
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


async def expected_to_last(process: subprocess.Popen[str], log: Path) -> None:
    """Fail as soon as a program ends, in its own words."""
    ended = asyncio.Event()
    handle = os.pidfd_open(process.pid)
    asyncio.get_running_loop().add_reader(handle, ended.set)
    try:
        await ended.wait()
    finally:
        asyncio.get_running_loop().remove_reader(handle)
        os.close(handle)
    raise RuntimeError(f"{process.args!r} ended:\n{_tail(log)}")


def _tail(log: Path) -> str:
    return log.read_text()[-2000:]


async def measure(contender: Contender, server: Server, jobs: int, folder: Path) -> Run:
    """Let one contender bring up that many jobs on a server that has nothing to do yet."""
    transport = create_transport(server.kubeconfig, None, SystemClock().now)
    client = KubeClient(transport)
    known = {"KUBECONFIG": str(server.kubeconfig), "RECIPE": str(folder / "recipe.json")}
    command = tuple(known.get(word, word) for word in contender.command)
    kubelet = (sys.executable, "-m", "bench.standin", str(server.kubeconfig))
    log, kubelet_log = folder / f"{contender.name}.log", folder / "standin.log"
    try:
        await install_crds(client)
        crowd = Crowd(client)
        async with asyncio.TaskGroup() as tasks:
            others = [tasks.create_task(crowd.follow())]
            await crowd.wait_served()
            with running(kubelet, kubelet_log) as node, running(command, log, told=contender.is_told) as process:
                others.append(tasks.create_task(expected_to_last(node, kubelet_log)))
                others.append(tasks.create_task(expected_to_last(process, log)))
                run = await _bring_up(crowd, client, server, process, jobs)
                for each in others:
                    each.cancel()
                return run
    finally:
        await transport.aclose()
    raise AssertionError("unreachable: the group returns or raises")


async def _bring_up(crowd: Crowd, client: KubeClient, server: Server, process: subprocess.Popen[str], jobs: int) -> Run:
    await crowd.bring_up([f"bench-9{number:04}" for number in range(WARM_UP)], process.stdin)
    await server.settle()
    before, used, served, looked = await calls(client), _cpu(process.pid), server.cpu(), await _looks()
    seconds = await crowd.bring_up([f"bench-{number:05}" for number in range(jobs)], process.stdin)
    await server.settle()
    return Run(
        seconds,
        cpu=_cpu(process.pid) - used,
        peak=_peak(process.pid),
        server_cpu=server.cpu() - served,
        calls=await calls(client) - before,
        looks=await _looks() - looked,
    )


async def _looks() -> float:
    """How often our operator has looked at a job, if it is the one at work."""
    try:
        async with aiohttp.ClientSession() as session, session.get(f"http://{PAGES}/metrics") as answer:
            lines = (await answer.text()).splitlines()
    except aiohttp.ClientConnectorError:
        return 0.0
    return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith("pliant_reconciles_total"))


def _cpu(process: int) -> float:
    return cpu_ticks(process) / TICKS


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
    columns = f"{'CPU s':>6}{'peak MiB':>10}{'server CPU s':>14}{'reconciles/job':>15}"
    print(f"{'':<8}{'seconds':<24}{'to the floor, same round':<26}{columns}")
    for name, taken in runs.items():
        ratios = [run.seconds / floor.seconds for run, floor in zip(taken, runs[FLOOR], strict=False)]
        times = f"{spread([run.seconds for run in taken]):<24}{spread(ratios) if name != FLOOR else '':<26}"
        cpu, peak, served, looks = (
            statistics.median(column)
            for column in zip(*((run.cpu, run.peak, run.server_cpu, run.looks) for run in taken), strict=True)
        )
        print(f"{name:<8}{times}{cpu:6.2f}{peak:10.0f}{served:14.1f}{looks / jobs or '':>15}")
    if not runs[FLOOR][0].calls:
        return
    print("\ncalls per job, counted by the server (the submitter's and the stand-in's, too)")
    for name, taken in runs.items():
        counted = sum((run.calls for run in taken), Calls())
        words = (f"{call} {number / jobs / len(taken):.4g}" for call, number in sorted(counted.items()))
        print(f"  {name:<8}{', '.join(words)}")


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
        f"{args.jobs} jobs × {PODS_PER_JOB} pods; {version(embedded=args.embedded)}; {os.cpu_count()} cores;", end=" "
    )
    print(f"load {load:.1f} before, {os.getloadavg()[0]:.1f} after; fdatasync {sync:.1f} ms")
    print(f"median of {args.pairs} rounds (least to most)\n")
    report(runs, args.jobs)


if __name__ == "__main__":
    main()
