"""`pliant simulate`: simulates jobs under autoscaling policies, without a cluster."""

from __future__ import annotations

import sys
import time
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from pliant.cli.output.formats import add_output_option
from pliant.errors import UserError

if TYPE_CHECKING:
    from pliant.simulation.run import SimulationResult, SimulationSettings
    from pliant.simulation.trace import SimulationTrace

DESCRIPTION = "Simulate jobs on a cluster of any size under one or more autoscaling policies, and compare the results."
EPILOG = """\
policies:
  fair, edl, goodput   the policies of the operator; the simulator runs the same code
  edl-published        the autoscaler of PaddlePaddle EDL, as published
  none                 no autoscaling: every job has its `fixed` size

The experiments edl-1 and edl-2 were published for EDL; large has 100,000 jobs on 10,000 nodes. The same input always
gives the same result. docs/simulator.md describes the files, the figures and the simplifications.

examples:
  pliant simulate --experiment edl-1                            no autoscaling, compared with `fair`
  pliant simulate --experiment edl-2 --policy edl-published,fair --delays published
  pliant simulate --experiment edl-1 --policy fair --plot fair.svg
  pliant simulate nodes.csv jobs.csv services.csv -o json       simulate your own traces
  pliant simulate trace.yaml --policy fair,goodput --until 2h
"""
MAX_EXPERIMENT_JOBS = 1_000_000
PROGRESS_PRINT_INTERVAL_SECONDS = 10.0  # seconds between progress lines


def configure(parser: ArgumentParser) -> None:
    parser.add_argument("files", nargs="*", metavar="FILE", help="CSV or YAML file with nodes, jobs or services")
    parser.add_argument("--experiment", metavar="NAME", help="Experiment instead of files: edl-1, edl-2 or large")
    parser.add_argument("--jobs", type=_parse_job_count, metavar="N", help="Number of jobs of the experiment")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="Seed of the random number generator (1)")
    parser.add_argument("--policy", default="none,fair", metavar="NAME[,NAME…]", help="Policies to compare (none,fair)")
    delays_help = "Delays in seconds (schedule=0.1,start=3,terminate=2,reschedule=1,jitter=0), or `published`"
    parser.add_argument("--delays", default="", metavar="DELAYS", help=delays_help)
    parser.add_argument("--period", metavar="TIME", help="Time between two rounds of the autoscaler (5s)")
    load_help = "Fraction of the capacity that the autoscaler may use (0.97)"
    parser.add_argument("--max-load", type=float, default=0.97, metavar="FRACTION", help=load_help)
    scheduler_help = "Placement of pods: spread or packed (spread)"
    parser.add_argument("--scheduler", choices=("spread", "packed"), default="spread", help=scheduler_help)
    parser.add_argument("--until", metavar="TIME", help="End of the simulation (default: when the last job has ended)")
    parser.add_argument("--plot", metavar="PATH", help="Draw charts: FILE.svg, FILE.png, or a directory")
    add_output_option(parser, ("table", "json", "csv"))


def execute(args: Namespace) -> int:
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
    if not text.isdecimal() or not 1 <= int(text) <= MAX_EXPERIMENT_JOBS:
        raise ArgumentTypeError(f"`{text}` is not a number between 1 and {MAX_EXPERIMENT_JOBS:,}")
    return int(text)


def _parse_policies(text: str) -> list[str]:
    from pliant.autoscale.policies.registry import SIMULATION_POLICIES
    from pliant.simulation.run import NO_POLICY_NAME

    known = (*SIMULATION_POLICIES, NO_POLICY_NAME)
    chosen = list(dict.fromkeys(name.strip().lower() for name in text.split(",") if name.strip()))
    for name in chosen:
        if name not in known:
            raise UserError(f"--policy: unknown policy `{name}`; use one of: {', '.join(sorted(known))}")
    if not chosen:
        raise UserError("--policy: at least one policy is required, for example fair")
    return chosen


def _load_trace(args: Namespace) -> SimulationTrace:
    from random import Random

    from pliant.cli.input.trace_files import read_trace
    from pliant.simulation.experiments import TRACE_FACTORY_BY_EXPERIMENT

    if bool(args.files) == bool(args.experiment):
        raise UserError("specify either files or an --experiment: " + ", ".join(TRACE_FACTORY_BY_EXPERIMENT))
    if args.experiment:
        if args.experiment not in TRACE_FACTORY_BY_EXPERIMENT:
            raise UserError(
                f"--experiment: unknown experiment `{args.experiment}`; "
                f"use one of: {', '.join(TRACE_FACTORY_BY_EXPERIMENT)}"
            )
        trace = TRACE_FACTORY_BY_EXPERIMENT[args.experiment](Random(args.seed), args.jobs)
    elif args.jobs:
        raise UserError("--jobs: requires --experiment; trace files list their own jobs")
    else:
        trace = read_trace(args.files)
    if args.until:
        trace = replace(trace, end_at=_parse_seconds("--until", args.until))
    if args.period:
        period = _parse_seconds("--period", args.period)
        trace = replace(trace, period=period, urgent_period=min(trace.urgent_period, period))
    return trace


def _parse_seconds(option: str, text: str) -> float:
    from pliant.simulation.delays import parse_duration_seconds

    try:
        seconds = parse_duration_seconds(text)
    except ValueError as error:
        raise UserError(f"{option}: {error}") from None
    if not seconds:
        raise UserError(f"{option}: must be greater than 0")
    return seconds


def _simulation_settings(args: Namespace) -> SimulationSettings:
    from pliant.simulation.autoscaler import SimulatedAutoscalerSettings
    from pliant.simulation.delays import parse_delays
    from pliant.simulation.run import SimulationSettings

    if not 0 < args.max_load <= 1:
        raise UserError(f"--max-load: must be greater than 0 and at most 1, not {args.max_load:g}")
    try:
        delays = parse_delays(args.delays)
    except ValueError as error:
        raise UserError(f"--delays: {error}") from None
    return SimulationSettings(
        delays=delays,
        timing=SimulatedAutoscalerSettings(max_load=args.max_load),
        seed=args.seed,
        is_bin_packing=args.scheduler == "packed",
    )


def _simulate_policy(trace: SimulationTrace, policy: str, settings: SimulationSettings) -> SimulationResult:
    from pliant.autoscale.policies.registry import SIMULATION_POLICIES
    from pliant.simulation.run import settings_with_policy_timing, simulate_trace

    return simulate_trace(
        trace,
        SIMULATION_POLICIES.get(policy),
        settings_with_policy_timing(policy, trace, settings),
        stopwatch=time.process_time,
        on_progress=_progress_printer(policy, len(trace.jobs)),
    )


def _progress_printer(policy: str, job_count: int) -> Callable[[float, int], None]:
    """Return a callback that reports the progress of long simulations on standard error."""
    last = time.monotonic()

    def print_progress(now: float, ended: int) -> None:
        nonlocal last
        if time.monotonic() - last >= PROGRESS_PRINT_INTERVAL_SECONDS:
            last = time.monotonic()
            sys.stderr.write(f"{policy}: {ended:,} of {job_count:,} jobs have ended, {now:,.0f} seconds simulated\n")

    return print_progress
