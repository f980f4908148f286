"""Measures the time until 300 jobs of four pods run, compared with a client that only writes, and with kopf.

    python -m bench.bringup [--jobs 300] [--pairs 10] [--kopf 3] [--embedded]

Every run has a new server, the same submitter and the same fake kubelet. Each round runs every variant once, so that
other load on the machine affects all of them equally. Nothing is asserted.
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

from bench.job_submitter import JobSubmitter
from bench.servers import (
    TICKS_PER_SECOND,
    RequestCounts,
    Server,
    count_requests,
    describe_server,
    start_embedded_server,
    start_real_server,
)
from bench.write_recorder import PODS_PER_JOB, dump_writes, record_job_writes
from pliant.cli.cluster.apply import install_crds
from pliant.kube.client import KubeClient
from pliant.kube.client_config import create_transport
from pliant.runtime.clock import SystemClock
from tests.controlplane.build import cache_folder
from tests.scenarios.host import cpu_ticks

ROOT = Path(__file__).parents[1]
KOPF_VERSION = "1.45.2"
WARM_UP_JOBS = 8
"""Jobs that are not measured; when they run, all processes are up and their watches are established."""
with socket.create_server(("127.0.0.1", 0)) as probe:
    METRICS_ADDRESS = f"127.0.0.1:{probe.getsockname()[1]}"
"""Where the operator serves its metrics, among them the number of reconciliations."""
BASELINE, PLIANT, KOPF = "baseline", "pliant", "kopf"


@dataclass(frozen=True)
class Variant:
    """A program that starts the pods of jobs."""

    name: str
    command: tuple[str, ...]
    reads_jobs: bool = False
    """Whether it reads the jobs from standard input instead of watching the server."""


@dataclass(frozen=True)
class Run:
    """The measurements of one run."""

    seconds: float
    cpu: float
    peak_memory: float
    """MiB."""
    server_cpu: float
    requests: RequestCounts
    reconciles: float
    """Reconciliations, which only Pliant counts."""


def list_variants(with_kopf: bool) -> dict[str, Variant]:
    """Return the variants by name; KUBECONFIG and WRITES are placeholders for the files of each run."""
    python, metrics_flags = sys.executable, ("--metrics-bind-address", METRICS_ADDRESS)
    variants = [
        Variant(BASELINE, (python, "-m", "bench.bare_client", "KUBECONFIG", "WRITES"), reads_jobs=True),
        Variant(PLIANT, (python, "-m", "pliant", "operator", "--kubeconfig", "KUBECONFIG", *metrics_flags)),
    ]
    if with_kopf:
        variants.append(Variant(KOPF, (str(install_kopf()), "-m", "bench.kopf_operator", "KUBECONFIG", "WRITES")))
    return {variant.name: variant for variant in variants}


def install_kopf() -> Path:
    """Install kopf into a virtual environment, unless it exists, and return the path of its Python."""
    venv = cache_folder(os.environ) / "bench" / f"kopf-{KOPF_VERSION}"
    python = venv / "bin" / "python"
    if not (venv / "complete").exists():
        print(f"installing kopf {KOPF_VERSION} into {venv} (once)", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", "--clear", venv], check=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", f"kopf=={KOPF_VERSION}"], check=True)
        (venv / "complete").touch()
    return python


@contextmanager
def start_process(command: tuple[str, ...], log: Path, *, has_stdin: bool = False) -> Iterator[subprocess.Popen[str]]:
    """Run a program in the background, and kill it at the end."""
    stdin = subprocess.PIPE if has_stdin else subprocess.DEVNULL
    with (
        log.open("w") as output,
        subprocess.Popen(command, cwd=ROOT, stdin=stdin, stdout=output, stderr=output, text=True) as process,
    ):
        try:
            yield process
        finally:
            process.kill()


async def fail_on_exit(process: subprocess.Popen[str], log: Path) -> None:
    """Raise an error with the end of the log when a program exits."""
    exited = asyncio.Event()
    pidfd = os.pidfd_open(process.pid)
    asyncio.get_running_loop().add_reader(pidfd, exited.set)
    try:
        await exited.wait()
    finally:
        asyncio.get_running_loop().remove_reader(pidfd)
        os.close(pidfd)
    raise RuntimeError(f"{process.args!r} exited:\n{_read_tail(log)}")


def _read_tail(log: Path) -> str:
    return log.read_text()[-2000:]


async def measure_variant(variant: Variant, server: Server, jobs: int, folder: Path) -> Run:
    """Measure how long one variant takes to start this number of jobs on an idle server."""
    transport = create_transport(server.kubeconfig, None, SystemClock().now)
    client = KubeClient(transport)
    files = {"KUBECONFIG": str(server.kubeconfig), "WRITES": str(folder / "writes.json")}
    command = tuple(files.get(argument, argument) for argument in variant.command)
    kubelet_command = (sys.executable, "-m", "bench.fake_kubelet", str(server.kubeconfig))
    log, kubelet_log = folder / f"{variant.name}.log", folder / "fake_kubelet.log"
    try:
        await install_crds(client)
        submitter = JobSubmitter(client)
        async with asyncio.TaskGroup() as tasks:
            background = [tasks.create_task(submitter.run_informers())]
            await submitter.wait_synced()
            with (
                start_process(kubelet_command, kubelet_log) as kubelet,
                start_process(command, log, has_stdin=variant.reads_jobs) as process,
            ):
                background.append(tasks.create_task(fail_on_exit(kubelet, kubelet_log)))
                background.append(tasks.create_task(fail_on_exit(process, log)))
                run = await _measure_jobs(submitter, client, server, process, jobs)
                for task in background:
                    task.cancel()
                return run
    finally:
        await transport.aclose()
    raise AssertionError("unreachable: the task group returns or raises")


async def _measure_jobs(
    submitter: JobSubmitter, client: KubeClient, server: Server, process: subprocess.Popen[str], jobs: int
) -> Run:
    await submitter.submit_and_wait([f"bench-9{number:04}" for number in range(WARM_UP_JOBS)], process.stdin)
    await server.wait_idle()
    requests_before, reconciles_before = await count_requests(client), await _count_reconciles()
    cpu_before, server_cpu_before = _cpu_seconds(process.pid), server.cpu_seconds()
    seconds = await submitter.submit_and_wait([f"bench-{number:05}" for number in range(jobs)], process.stdin)
    await server.wait_idle()
    return Run(
        seconds,
        cpu=_cpu_seconds(process.pid) - cpu_before,
        peak_memory=_peak_memory(process.pid),
        server_cpu=server.cpu_seconds() - server_cpu_before,
        requests=await count_requests(client) - requests_before,
        reconciles=await _count_reconciles() - reconciles_before,
    )


async def _count_reconciles() -> float:
    """Return the number of reconciliations of Pliant's operator; 0 if it does not run."""
    try:
        async with aiohttp.ClientSession() as session, session.get(f"http://{METRICS_ADDRESS}/metrics") as response:
            lines = (await response.text()).splitlines()
    except aiohttp.ClientConnectorError:
        return 0.0
    return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith("pliant_reconciles_total"))


def _cpu_seconds(process: int) -> float:
    return cpu_ticks(process) / TICKS_PER_SECOND


def _peak_memory(process: int) -> float:
    """Return the peak resident memory of a process in MiB."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) / 1024


def run_rounds(args: argparse.Namespace, folder: Path) -> dict[str, list[Run]]:
    """Run all variants in turn; the baseline and Pliant alternate in which of them runs first."""
    variants = list_variants(with_kopf=args.kopf > 0)
    runs: dict[str, list[Run]] = {name: [] for name in variants}
    for number in range(args.pairs):
        pair = [BASELINE, PLIANT] if number % 2 else [PLIANT, BASELINE]
        for name in [*pair, *([KOPF] if number < args.kopf else [])]:
            with (start_embedded_server if args.embedded else start_real_server)() as server:
                run = asyncio.run(measure_variant(variants[name], server, args.jobs, folder))
            runs[name].append(run)
            print(f"  {name:<9} {run.seconds:6.2f} s  load {os.getloadavg()[0]:.1f}", file=sys.stderr, flush=True)
    return runs


def print_report(runs: dict[str, list[Run]], jobs: int) -> None:
    """Print medians and ranges."""
    columns = f"{'CPU s':>6}{'peak MiB':>10}{'server CPU s':>14}{'reconciles/job':>15}"
    print(f"{'':<10}{'seconds':<24}{'ratio to the baseline':<26}{columns}")
    for name, variant_runs in runs.items():
        ratios = [run.seconds / base.seconds for run, base in zip(variant_runs, runs[BASELINE], strict=False)]
        ratio = format_range(ratios) if name != BASELINE else ""
        times = f"{format_range([run.seconds for run in variant_runs]):<24}{ratio:<26}"
        cpu, peak, server_cpu, reconciles = (
            statistics.median(column)
            for column in zip(
                *((run.cpu, run.peak_memory, run.server_cpu, run.reconciles) for run in variant_runs), strict=True
            )
        )
        print(f"{name:<10}{times}{cpu:6.2f}{peak:10.0f}{server_cpu:14.1f}{reconciles / jobs or '':>15}")
    if not runs[BASELINE][0].requests:
        return
    print("\nrequests per job, counted by the server (including those of the submitter and the fake kubelet)")
    for name, variant_runs in runs.items():
        total = sum((run.requests for run in variant_runs), RequestCounts())
        counts = (f"{request} {count / jobs / len(variant_runs):.4g}" for request, count in sorted(total.items()))
        print(f"  {name:<10}{', '.join(counts)}")


def format_range(numbers: Sequence[float]) -> str:
    """Format the median, the minimum and the maximum."""
    return f"{statistics.median(numbers):.2f} ({min(numbers):.2f} to {max(numbers):.2f})"


def measure_fdatasync(folder: Path) -> float:
    """Return the median duration of fdatasync in milliseconds."""
    durations = []
    with (folder / "sync").open("wb", buffering=0) as file:
        for _ in range(50):
            file.write(b"x" * 4096)
            started = time.perf_counter()
            os.fdatasync(file)
            durations.append(time.perf_counter() - started)
    return statistics.median(durations) * 1000


def main() -> None:
    """Measure and print tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=300)
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--kopf", type=int, default=3, metavar="ROUNDS", help="number of rounds that include kopf")
    parser.add_argument("--embedded", action="store_true", help="use the embedded server")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pliant-bench-") as name:
        folder = Path(name)
        (folder / "writes.json").write_text(dump_writes(asyncio.run(record_job_writes())))
        load, fdatasync = os.getloadavg()[0], measure_fdatasync(folder)
        runs = run_rounds(args, folder)
    print(
        f"{args.jobs} jobs × {PODS_PER_JOB} pods; {describe_server(embedded=args.embedded)}; {os.cpu_count()} cores;",
        end=" ",
    )
    print(f"load {load:.1f} before, {os.getloadavg()[0]:.1f} after; fdatasync {fdatasync:.1f} ms")
    print(f"median of {args.pairs} rounds (minimum to maximum)\n")
    print_report(runs, args.jobs)


if __name__ == "__main__":
    main()
