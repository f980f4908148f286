"""`pliant submit`: creates jobs and the objects they need on a running cluster."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path

from pliant.cli.cluster.target import (
    CLUSTER_SELECTION_HELP,
    ClusterTarget,
    add_target_options,
    connect_target,
    is_owned_local_cluster,
)
from pliant.cli.cluster.waiting import UNLIMITED_WAIT_TIMEOUT, add_wait_options
from pliant.cli.input.local_cluster_options import add_workspace_option, workspace_of
from pliant.cli.output.streams import write_line
from pliant.errors import UserError

DESCRIPTION = "Create jobs, and create or update the objects they need, on a running cluster."
EPILOG = f"""\
{CLUSTER_SELECTION_HELP}
Objects that jobs need, such as ConfigMaps, are created or updated first. On a local cluster of yours, programs start in
the directory of the first FILE, as with `pliant run`. With --wait and --follow the exit codes are
those of `pliant run`.

examples:
  pliant submit job.yaml                     create a job and return
  pliant submit job.yaml --follow            also follow its logs until it ends
  pliant submit job.yaml --replace --wait    replace the job of that name
  pliant submit job.yaml --set spec.replicaSpecs.worker.replicas=4
"""


def configure(parser: ArgumentParser) -> None:
    parser.add_argument("files", nargs="+", metavar="FILE", help="YAML file with jobs and other objects; - reads stdin")
    set_help = "Set a field of the jobs, as in `pliant run`"
    parser.add_argument("--set", action="append", default=[], metavar="PATH=VALUE", help=set_help)
    add_workspace_option(parser)
    parser.add_argument("--replace", action="store_true", help="Delete existing jobs of the same names first")
    parser.add_argument("--follow", "-f", action="store_true", help="Follow the logs of the jobs until they end")
    add_wait_options(parser, "the jobs have ended", UNLIMITED_WAIT_TIMEOUT)
    add_target_options(parser)


async def execute(args: Namespace) -> int:
    from pliant.cli.cluster.apply import kind_registry_for_manifests
    from pliant.cli.cluster.job_end import report_end
    from pliant.cli.cluster.submission import ManifestSubmitter, ReplacePolicy
    from pliant.cli.input.manifest_checks import check_jobs_and_plans
    from pliant.cli.input.manifests import load_manifests
    from pliant.cli.input.set_option import with_job_fields_set
    from pliant.cli.input.workspace_annotation import with_workspace

    manifests = with_job_fields_set(load_manifests(args.files), args.set)
    async with connect_target(args) as target:
        if (workspace := await _local_workspace(target, args)) is not None:
            manifests = with_workspace(manifests, workspace, overwrite=args.workspace is not None)
        check_jobs_and_plans(manifests, kind_registry_for_manifests(manifests), target.default_namespace)
        policy = ReplacePolicy(replaces_active=args.replace, timeout=args.timeout)
        jobs = await ManifestSubmitter(target, policy, write_line).submit(manifests)
        if not args.follow and not args.wait:
            return 0
        codes = [await report_end(target, job, args.timeout, follow=args.follow) for job in jobs]
    return 1 if 1 in codes else next((code for code in codes if code), 0)


async def _local_workspace(target: ClusterTarget, args: Namespace) -> Path | None:
    """Return the working directory of the jobs; None on other clusters, to which paths are not sent."""
    if await is_owned_local_cluster(target):
        return workspace_of(args)
    if args.workspace is not None:
        raise UserError("--workspace requires a local cluster of yours; set workingDir in the pod template instead")
    return None
