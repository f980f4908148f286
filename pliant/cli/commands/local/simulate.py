"""`pliant simulate`: what would become of jobs on a cluster under each policy, in seconds and without one."""

from __future__ import annotations

import sys
import time
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Callable
from typing import TYPE_CHECKING

from pliant.cli.output.formats import add_output_option
from pliant.errors import UserError

if TYPE_CHECKING:
    from pliant.simulation.run import SimulationResult, SimulationSettings
    from pliant.simulation.trace import SimulationTrace

EPILOG = """\
Policies are edl, fair and goodput, the very code of the operator; edl-published, the autoscaler of PaddlePaddle
EDL as it was published; and none, under which every job has its `fixed` size. Several are compared side by side.
Experiments are edl-1 and edl-2, the two that were published for EDL, and large: 100,000 jobs on 10,000 nodes.
The same input always gives the same answer. Files, figures and what is left out: docs/simulator.md.

examples:
  pliant simulate --experiment edl-1                            nobody scales, or `fair` does
  pliant simulate --experiment edl-2 --policy edl-published,fair --delays published
  pliant simulate --experiment edl-1 --policy fair --plot fair.svg
  pliant simulate nodes.csv jobs.csv services.csv -o json       traces of your own
  pliant simulate trace.yaml --policy fair,goodput --until 2h
"""
MAX_JOBS = 1_000_000
PROGRESS_INTERVAL = 10.0
"""Seconds from one word on how far a run is to the next; most are over before the first."""


def configure(parser: ArgumentParser) -> None:
    """Declare the options."""
    parser.epilog = EPILOG
    parser.add_argument("files", nargs="*", metavar="FILE", help="traces: nodes, jobs and services, as CSV or YAML")
    parser.add_argument("--experiment", metavar="NAME", help="edl-1, edl-2 or large, in place of files")
    parser.add_argument("--jobs", type=_parse_job_count, metavar="N", help="how many jobs an experiment has")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="what chance follows from (1)")
    parser.add_argument("--policy", default="none,fair", metavar="NAME[,NAME…]", help="whom to compare (none,fair)")
    parser.add_argument(
        "--delays",
        default="",
        metavar="WHAT",
        help="in seconds: schedule=0.1,start=3,terminate=2,reschedule=1,jitter=0 (default), or `published`",
    )
    parser.add_argument("--period", metavar="TIME", help="from one round of the autoscaler to the next (5s)")
    parser.add_argument(
        "--max-load", type=float, default=0.97, metavar="PART", help="how much may be given away (0.97)"
    )
    parser.add_argument(
        "--scheduler", choices=("spread", "packed"), default="spread", metavar="HOW", help="spread or packed (spread)"
    )
    parser.add_argument("--until", metavar="TIME", help="stop then (when the last job has ended)")
    parser.add_argument("--plot", metavar="PATH", help="draw it: FILE.svg, FILE.png, or a folder for a file per policy")
    add_output_option(parser, ("table", "json", "csv"))


def execute(args: Namespace) -> int:
    """Run the trace under each policy and compare."""
    from pliant.cli.output.simulation_report import check_plot_path, format_outcomes, write_plots

    if args.plot:
        check_plot_path(args.plot)
    policies, settings = _parse_policies(args.policy), _simulation_settings(args)
    trace = _load_trace(args)
    title = args.experiment or ", ".join(args.files)
    outcomes = [_simulate_policy(trace, name, settings) for name in policies]
    sys.stdout.write(format_outcomes(args.output, outcomes, sys.stdout))
    if args.plot:
        write_plots(args.plot, outcomes, title)
    return 0


def _parse_job_count(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= MAX_JOBS:
        raise ArgumentTypeError(f"`{text}` is not a number from 1 to {MAX_JOBS:,}")
    return int(text)


def _parse_policies(text: str) -> list[str]:
    from pliant.autoscale.policies.registry import ALL_POLICIES
    from pliant.simulation.run import NO_POLICY

    known = (*ALL_POLICIES, NO_POLICY)
    chosen = list(dict.fromkeys(name.strip().lower() for name in text.split(",") if name.strip()))
    for name in chosen:
        if name not in known:
            raise UserError(f"--policy: there is no policy `{name}`; there are {', '.join(sorted(known))}")
    if not chosen:
        raise UserError("--policy: name at least one, as fair")
    return chosen


def _load_trace(args: Namespace) -> SimulationTrace:
    from dataclasses import replace
    from random import Random

    from pliant.cli.input.trace_files import read_trace
    from pliant.simulation.experiments import EXPERIMENTS

    if bool(args.files) == bool(args.experiment):
        raise UserError("name either files or an --experiment: " + ", ".join(EXPERIMENTS))
    if args.experiment:
        if args.experiment not in EXPERIMENTS:
            raise UserError(f"--experiment: there is no `{args.experiment}`; there are {', '.join(EXPERIMENTS)}")
        trace = EXPERIMENTS[args.experiment](Random(args.seed), args.jobs)
    elif args.jobs:
        raise UserError("--jobs: only experiments can have another number of jobs; files name their own")
    else:
        trace = read_trace(args.files)
    if args.until:
        trace = replace(trace, end_at=_parse_seconds("--until", args.until))
    if args.period:
        period = _parse_seconds("--period", args.period)
        trace = replace(trace, period=period, urgent_period=min(trace.urgent_period, period))
    return trace


def _parse_seconds(option: str, text: str) -> float:
    from pliant.simulation.delays import parse_seconds

    try:
        found = parse_seconds(text)
    except ValueError as error:
        raise UserError(f"{option}: {error}") from None
    if not found:
        raise UserError(f"{option}: must be above 0")
    return found


def _simulation_settings(args: Namespace) -> SimulationSettings:
    from pliant.simulation.autoscaler import AutoscalerTiming
    from pliant.simulation.delays import parse_delays
    from pliant.simulation.run import SimulationSettings

    if not 0 < args.max_load <= 1:
        raise UserError(f"--max-load: must be above 0 and at most 1, not {args.max_load:g}")
    try:
        delays = parse_delays(args.delays)
    except ValueError as error:
        raise UserError(f"--delays: {error}") from None
    return SimulationSettings(
        delays=delays,
        timing=AutoscalerTiming(max_load=args.max_load),
        seed=args.seed,
        is_bin_packing=args.scheduler == "packed",
    )


def _simulate_policy(trace: SimulationTrace, policy: str, settings: SimulationSettings) -> SimulationResult:
    from pliant.autoscale.policies.registry import ALL_POLICIES
    from pliant.simulation.run import settings_for_policy, simulate

    return simulate(
        trace,
        ALL_POLICIES.get(policy),
        settings_for_policy(policy, trace, settings),
        stopwatch=time.process_time,
        on_progress=_progress_printer(policy, len(trace.jobs)),
    )


def _progress_printer(policy: str, job_count: int) -> Callable[[float, int], None]:
    """Tells on the standard error how far a long run is."""
    last = time.monotonic()

    def tell(now: float, ended: int) -> None:
        nonlocal last
        if time.monotonic() - last >= PROGRESS_INTERVAL:
            last = time.monotonic()
            sys.stderr.write(f"{policy}: {ended:,} of {job_count:,} jobs have ended, {now:,.0f} seconds simulated\n")

    return tell
