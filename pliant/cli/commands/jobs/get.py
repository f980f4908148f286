"""`pliant get`: where jobs stand, one line each."""

from __future__ import annotations

import asyncio
import sys
from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING, Any

from pliant.cli.cluster.target import TARGET_HELP, add_target_options
from pliant.cli.output.formats import add_output_option

if TYPE_CHECKING:
    from datetime import datetime

    from pliant.cli.cluster.job_lookup import JobObject
    from pliant.cli.cluster.target import ClusterTarget
    from pliant.cli.output.table import Table

EPILOG = f"""\
{TARGET_HELP}
examples:
  pliant get                       the jobs of this namespace
  pliant get -A                    of all namespaces
  pliant get bert -o yaml          one, with everything that is known about it
  pliant get --watch               and a line for whatever changes, until Ctrl-C
"""


def configure(parser: ArgumentParser) -> None:
    """Declare the options."""
    parser.epilog = EPILOG
    parser.add_argument("jobs", nargs="*", metavar="JOB", help="NAME or KIND/NAME (all)")
    parser.add_argument("--watch", "-w", action="store_true", help="go on telling what changes")
    add_output_option(parser)
    add_target_options(parser, all_namespaces=True)


def execute(args: Namespace) -> int:
    """Tell, and go on telling if asked to."""
    return asyncio.run(_get_jobs(args))


async def _get_jobs(args: Namespace) -> int:
    from pliant.cli.cluster.job_lookup import find_jobs, list_jobs
    from pliant.cli.cluster.target import connect_target

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
    from pliant.cli.output.formats import print_objects
    from pliant.runtime.clock import SystemClock

    if args.output == "name":
        sys.stdout.write("".join(f"{one.qualified_name}\n" for one in jobs))
    elif args.output in ("json", "yaml"):
        print_objects(args.output, [one.raw for one in jobs], is_single=len(args.jobs) == 1)
    elif not jobs and not args.watch:
        where = "" if args.all_namespaces else " in this namespace; -A looks in all of them"
        sys.stderr.write(f"no jobs{where}\n")
    else:
        now = SystemClock().now()
        sys.stdout.write("\n".join(table.render(_job_row(args, one, now) for one in jobs)) + "\n")
    sys.stdout.flush()


def _new_table(args: Namespace) -> Table:
    from pliant.cli.output.style import TerminalStyle
    from pliant.cli.output.table import Table, terminal_width

    titles = ["NAME", "PHASE", "READY", "RESTARTS", "SIZE", "AGE", "MESSAGE"]
    if args.output == "wide":
        titles[6:6] = ["KIND", "STARTED", "ENDED", "FIRST CAUSE"]
    if args.all_namespaces:
        titles.insert(0, "NAMESPACE")
    return Table(
        titles, TerminalStyle.for_stream(sys.stdout), terminal_width(sys.stdout) if args.output != "wide" else 0
    )


def _job_row(args: Namespace, job_object: JobObject, now: datetime) -> list[str]:
    from pliant.cli.cluster.job_lookup import qualified_kind
    from pliant.cli.durations import format_age
    from pliant.cli.output.job_summary import failure_summary, message_with_progress

    def ago(moment: datetime | None) -> str:
        return format_age(now - moment) if moment else "–"

    state = job_object.state
    row = [
        job_object.key.name,
        job_object.phase,
        _ready_text(job_object),
        str(state.restart_count if state else 0),
        group_sizes_text(job_object),
    ]
    row.append(ago(job_object.created_at))
    if args.output == "wide":
        row += [
            qualified_kind(job_object.frontend, job_object.frontend.kind),
            ago(state.first_running_at if state else None),
            ago(state.ended_at if state else None),
            failure_summary(state.root_cause) if state and state.root_cause else "–",
        ]
    return ([job_object.key.namespace] if args.all_namespaces else []) + [*row, message_with_progress(job_object)]


def _ready_text(job_object: JobObject) -> str:
    """How many run of those wanted, and how many are done: `1/2, 1 done`."""
    groups = [group for group in job_object.job.groups if not group.is_master] if job_object.job else []
    masters = {group.name for group in job_object.job.groups if group.is_master} if job_object.job else set()
    counts = (
        [each for name, each in job_object.state.replica_counts.items() if name not in masters]
        if job_object.state
        else []
    )
    size = sum(each.size for each in counts) or sum(group.size for group in groups)
    done = sum(each.succeeded for each in counts)
    if done and done == size:
        return f"{done}/{size} done"
    return f"{sum(each.active for each in counts)}/{size}" + (f", {done} done" if done else "")


def group_sizes_text(job_object: JobObject) -> str:
    """The size of each group, and its bounds where it has some: `ps 1, worker 2 [1–4]`."""
    from pliant.cli.explain.group_sizes import size_bounds_text
    from pliant.engine.sizing import with_applied_sizes

    if job_object.job is None:
        return "–"
    job = with_applied_sizes(job_object.job, job_object.job.state) if job_object.job.state else job_object.job
    return ", ".join(
        f"{group.name} {group.size}" + (f" [{bounds}]" if (bounds := size_bounds_text(group)) else "")
        for group in job.groups
        if not group.is_master
    )


async def _watch_jobs(args: Namespace, target: ClusterTarget, jobs: list[JobObject], table: Table) -> None:
    """A line for every change that shows, until somebody ends it."""
    from pliant.cli.cluster.job_lookup import parse_job_object
    from pliant.cli.cluster.reachability import monitor_reachability
    from pliant.plugins.registry import registered_kinds

    told = {one.uid: _visible_state(args, one) for one in jobs}
    wanted = {one.uid for one in jobs} if args.jobs else None

    def tell(frontend: Any, raw: dict[str, Any], is_gone: bool) -> None:
        one = parse_job_object(frontend, {"apiVersion": _api_version(frontend), "kind": frontend.kind, **raw})
        if wanted is not None and one.uid not in wanted:
            return
        news = ["gone"] if is_gone else _visible_state(args, one)
        if told.get(one.uid) != news:
            told[one.uid] = news
            _print_change(args, one, table, is_gone)

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(monitor_reachability(target.client))
        for frontend in registered_kinds().values():
            tasks.create_task(_watch_kind(target, frontend, tell))


async def _watch_kind(target: ClusterTarget, frontend: Any, on_change: Any) -> None:
    from pliant.controllers.job import resource_of
    from pliant.errors import NotFound
    from pliant.kube.cache.informer import Informer

    resource = resource_of(frontend)
    try:
        await target.client.list(resource, target.namespace)
    except NotFound:
        return  # the cluster does not know this kind

    def changed(old: dict[str, Any] | None, new: dict[str, Any] | None) -> None:
        on_change(frontend, new or old, new is None)

    await Informer(target.client, resource, dict, namespace=target.namespace, on_change=changed).run()


def _api_version(frontend: Any) -> str:
    return f"{frontend.group}/{frontend.version}"


def _visible_state(args: Namespace, job_object: JobObject) -> Any:
    """What a line tells of a job besides how old it is."""
    from pliant.runtime.clock import SystemClock

    if args.output in ("json", "yaml"):
        return job_object.raw
    now = job_object.created_at or SystemClock().now()
    return _job_row(args, job_object, now)


def _print_change(args: Namespace, job_object: JobObject, table: Table, is_deleted: bool) -> None:
    from pliant.cli.output.formats import print_objects
    from pliant.runtime.clock import SystemClock

    if args.output == "name":
        sys.stdout.write(f"{job_object.qualified_name}\n")
    elif args.output in ("json", "yaml"):
        print_objects(args.output, [job_object.raw], is_single=True)
    else:
        row = _job_row(args, job_object, SystemClock().now())
        row[-1] = "deleted" if is_deleted else row[-1]
        sys.stdout.write(f"{table.render_row(row)}\n")
    sys.stdout.flush()
