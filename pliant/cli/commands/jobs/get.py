"""`pliant get`: lists jobs and their status."""

from __future__ import annotations

import asyncio
import sys
from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING, Any

from pliant.cli.cluster.target import CLUSTER_SELECTION_HELP, ClusterTarget, add_target_options, connect_target
from pliant.cli.cluster.waiting import raise_when_unreachable
from pliant.cli.durations import format_age
from pliant.cli.output.formats import add_output_option, print_objects
from pliant.cli.output.style import TerminalStyle
from pliant.cli.output.table import Table, terminal_width
from pliant.errors import NotFound, Unreachable
from pliant.runtime.clock import SystemClock

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime

    from pliant.cli.cluster.job_lookup import JobObject
    from pliant.frontends.frontend import Frontend

    JobChangeHandler = Callable[[Frontend, Mapping[str, Any], bool], None]

DESCRIPTION = "List jobs and their status. With --watch, also print every change."
EPILOG = f"""\
{CLUSTER_SELECTION_HELP}
examples:
  pliant get                       list the jobs of the namespace
  pliant get -A                    list the jobs of all namespaces
  pliant get bert -o yaml          print one job as YAML
  pliant get --watch               also print every change, until Ctrl-C
"""


def configure(parser: ArgumentParser) -> None:
    parser.add_argument("jobs", nargs="*", metavar="JOB", help="NAME or KIND/NAME (default: all jobs)")
    parser.add_argument("--watch", "-w", action="store_true", help="After listing the jobs, watch for changes")
    add_output_option(parser)
    add_target_options(parser, all_namespaces=True)


async def execute(args: Namespace) -> int:
    from pliant.cli.cluster.job_lookup import find_jobs, list_jobs

    async with connect_target(args) as target:
        jobs = await (find_jobs(target, args.jobs) if args.jobs else list_jobs(target))
        table = _new_table(args)
        if args.watch:
            table.widen_columns([["Terminating" if title == "PHASE" else "" for title in table.titles]])
        _print_jobs(args, jobs, table)
        if args.watch:
            await _watch_jobs(args, target, jobs, table)
    return 0


def _print_jobs(args: Namespace, jobs: list[JobObject], table: Table) -> None:
    if args.output == "name":
        sys.stdout.write("".join(f"{job.qualified_name}\n" for job in jobs))
    elif args.output in ("json", "yaml"):
        print_objects(args.output, [job.raw for job in jobs], is_single=len(args.jobs) == 1)
    elif not jobs and not args.watch:
        scope = "" if args.all_namespaces else " in the namespace; -A lists the jobs of all namespaces"
        sys.stderr.write(f"no jobs found{scope}\n")
    else:
        now = SystemClock().now()
        sys.stdout.write("\n".join(table.render(_job_row(args, job, now) for job in jobs)) + "\n")
    sys.stdout.flush()


def _new_table(args: Namespace) -> Table:
    titles = ["NAME", "KIND", "PHASE", "READY", "RESTARTS", "SIZE", "AGE", "MESSAGE"]
    if args.output == "wide":
        titles[7:7] = ["STARTED", "ENDED", "ROOT CAUSE"]
    if args.all_namespaces:
        titles.insert(0, "NAMESPACE")
    width = terminal_width(sys.stdout) if args.output != "wide" else 0
    return Table(titles, TerminalStyle.for_stream(sys.stdout), width)


def _job_row(args: Namespace, job_object: JobObject, now: datetime) -> list[str]:
    from pliant.cli.cluster.job_lookup import unambiguous_kind_name
    from pliant.cli.output.job_summary import message_with_progress, short_failure_text

    def ago(moment: datetime | None) -> str:
        return format_age(now - moment) if moment else "–"

    state = job_object.state
    restarts = str(state.restart_count if state else 0)
    kind = unambiguous_kind_name(job_object.frontend, job_object.frontend.kind)
    row = [job_object.key.name, kind, job_object.phase, _ready_text(job_object), restarts]
    row += [group_sizes_text(job_object), ago(job_object.created_at)]
    if args.output == "wide":
        row += [
            ago(state.first_running_at if state else None),
            ago(state.ended_at if state else None),
            short_failure_text(state.root_cause) if state and state.root_cause else "–",
        ]
    return ([job_object.key.namespace] if args.all_namespaces else []) + [*row, message_with_progress(job_object)]


def _ready_text(job_object: JobObject) -> str:
    """Return how many replicas run and how many have succeeded: `1/2, 1 done`."""
    groups = job_object.job.groups if job_object.job else ()
    masters = {group.name for group in groups if group.is_master}
    all_counts = job_object.state.replica_counts if job_object.state else {}
    counts = [count for name, count in all_counts.items() if name not in masters]
    size = sum(count.size for count in counts) or sum(group.size for group in groups if not group.is_master)
    done = sum(count.succeeded for count in counts)
    if done and done == size:
        return f"{done}/{size} done"
    return f"{sum(count.active for count in counts)}/{size}" + (f", {done} done" if done else "")


def group_sizes_text(job_object: JobObject) -> str:
    """Return the size of each group with its bounds: `ps 1, worker 2 [1–4]`."""
    from pliant.cli.explain.group_sizes import size_bounds_text
    from pliant.engine.plans.membership import job_in_effect

    job, state = job_object.job, job_object.state
    if job is None:
        return "–"
    return ", ".join(
        f"{group.name} {group.size}" + (f" [{bounds}]" if (bounds := size_bounds_text(group)) else "")
        for group in (job_in_effect(job, state) if state else job).groups
        if not group.is_master
    )


async def _watch_jobs(args: Namespace, target: ClusterTarget, jobs: list[JobObject], table: Table) -> None:
    """Print a line for every visible change until the command is interrupted."""
    from pliant.cli.cluster.job_lookup import parse_job_object
    from pliant.plugins.registry import registered_kinds

    printed = {job.uid: _visible_state(args, job) for job in jobs}
    selected = {job.uid for job in jobs} if args.jobs else None

    def print_if_changed(frontend: Frontend, raw: Mapping[str, Any], is_deleted: bool) -> None:
        kind = {"apiVersion": f"{frontend.group}/{frontend.version}", "kind": frontend.kind}
        job = parse_job_object(frontend, {**kind, **raw})
        if selected is not None and job.uid not in selected:
            return
        visible = ["deleted"] if is_deleted else _visible_state(args, job)
        if printed.get(job.uid) != visible:
            printed[job.uid] = visible
            _print_change(args, job, table, is_deleted)

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(raise_when_unreachable(target.client))
        for frontend in registered_kinds().values():
            tasks.create_task(_watch_kind(target, frontend, print_if_changed))


async def _watch_kind(target: ClusterTarget, frontend: Frontend, on_change: JobChangeHandler) -> None:
    from pliant.controllers.job import resource_of
    from pliant.kube.cache.informer import Informer

    resource = resource_of(frontend)
    try:
        await target.client.list(resource, target.namespace)
    except NotFound:
        return  # the cluster does not serve this kind
    except Unreachable:
        pass  # raise_when_unreachable reports it, unless the cluster comes back

    def changed(old: dict[str, Any] | None, new: dict[str, Any] | None) -> None:
        on_change(frontend, new or old or {}, new is None)

    await Informer(target.client, resource, dict, namespace=target.namespace, on_change=changed).run()


def _visible_state(args: Namespace, job_object: JobObject) -> Any:
    """Return what a line shows of a job, apart from its age."""

    if args.output in ("json", "yaml"):
        return job_object.raw
    now = job_object.created_at or SystemClock().now()
    return _job_row(args, job_object, now)


def _print_change(args: Namespace, job_object: JobObject, table: Table, is_deleted: bool) -> None:
    if args.output == "name":
        sys.stdout.write(f"{job_object.qualified_name}\n")
    elif args.output in ("json", "yaml"):
        print_objects(args.output, [job_object.raw], is_single=True)
    else:
        row = _job_row(args, job_object, SystemClock().now())
        row[-1] = "deleted" if is_deleted else row[-1]
        sys.stdout.write(f"{table.render_row(row)}\n")
    sys.stdout.flush()
