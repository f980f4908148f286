"""Runs a script on a cluster: submits its job with its code, and follows it to its end."""

from __future__ import annotations

import asyncio
import secrets
import sys
from argparse import Namespace
from contextlib import suppress
from dataclasses import replace
from typing import Any

from pliant.cli.cluster.apply import kind_registry_for_manifests
from pliant.cli.cluster.job_end import report_end
from pliant.cli.cluster.job_lookup import JobObject
from pliant.cli.cluster.submission import ManifestSubmitter, ReplacePolicy
from pliant.cli.cluster.target import ClusterTarget, connect_target
from pliant.cli.cluster.waiting import UNLIMITED_WAIT_TIMEOUT
from pliant.cli.input.local_cluster_options import current_dir, workspace_of
from pliant.cli.input.manifest_checks import check_jobs_and_plans
from pliant.cli.input.manifests import Manifest
from pliant.cli.input.problems import input_error
from pliant.cli.input.workspace_annotation import with_workspace
from pliant.cli.output.formats import print_manifests
from pliant.cli.output.streams import write_line
from pliant.cli.script.code_shipping import CODE_DIR, build_code_config_map, read_code, with_code_mounted
from pliant.cli.script.options import JobInput, is_script, load_job_input
from pliant.cli.script.script_job import ScriptJob, as_manifest
from pliant.errors import ApiError, PliantError, Unreachable
from pliant.kube.resources import CONFIG_MAPS


async def run_on_cluster(args: Namespace) -> int:
    """Run the script of a command on the cluster of its options; Ctrl-C leaves the job running."""
    if not is_script(args):
        fix = f"submit them: pliant submit {' '.join(args.files)} --follow"
        raise input_error("--context, --kubeconfig, --cluster and --dry-run=server apply to scripts (FILE.py)", fix=fix)
    _check_no_temporary_cluster_options(args)
    job_input = load_script_for_cluster(args)
    if args.dry_run == "client":
        print_manifests(args.output, [manifest.raw for manifest in job_input.manifests])
        return 0
    async with connect_target(args) as target:
        check_jobs_and_plans(
            job_input.manifests, kind_registry_for_manifests(job_input.manifests), target.default_namespace
        )
        for note in job_input.notes:
            sys.stderr.write(f"{note}\n")
        # On a cluster of this machine, a script is usually run again and again.
        policy = ReplacePolicy(replaces_active=args.replace, replaces_finished=bool(args.cluster))
        submitter = ManifestSubmitter(target, policy, write_line, is_dry_run=args.dry_run == "server")
        job = await submit_script(target, submitter, job_input.manifests)
        if submitter.is_dry_run:
            return 0
        try:
            timeout = args.timeout or UNLIMITED_WAIT_TIMEOUT
            return await report_end(target, job, timeout, follow=args.logs and not args.quiet)
        except asyncio.CancelledError:
            name = job.key.name
            sys.stderr.write(f"{name} is still running: pliant logs {name} -f, or stop it: pliant delete {name}\n")
            raise


def _check_no_temporary_cluster_options(args: Namespace) -> None:
    options = {"--logs-dir": args.logs_dir, "--data": args.data, "--keep": args.keep, "--mount": args.mount}
    options |= {"--node-cpu": args.node_cpu, "--node-memory": args.node_memory, "--node-gpu": args.node_gpu}
    options |= {"--nodes": args.nodes > 1, "--workspace": args.workspace and not args.cluster}
    for option, value in options.items():
        if value:
            fix = (
                "remove it" if option != "--logs-dir" else "remove it, and save the logs with `pliant logs JOB > FILE`"
            )
            raise input_error(f"{option} does not apply to a running cluster", fix=fix)


def load_script_for_cluster(args: Namespace) -> JobInput:
    """Build the job of a script: on a local cluster it starts in the current directory, on others with its code."""
    if args.cluster:
        job_input = load_job_input(args)
        workspace = workspace_of(args) or current_dir()
        return replace(job_input, manifests=with_workspace(job_input.manifests, workspace, overwrite=True))
    return load_shipped_script(args)


def load_shipped_script(args: Namespace) -> JobInput:
    """Build the job of a script, with a ConfigMap of its code unless `--no-ship` is set."""
    if not args.image:
        fix = "name an image that has Python and the framework, for example --image python:3.12-slim"
        raise input_error("--image is required to run a script on a cluster", fix=fix)
    job_input = load_job_input(args, code_dir=CODE_DIR if args.ship else "")
    if job_input.script_job is None or not args.ship:
        return job_input
    [manifest] = job_input.manifests  # with the fields of --set
    return replace(job_input, manifests=ship_code(job_input.script_job, manifest))


def ship_code(script_job: ScriptJob, manifest: Manifest) -> list[Manifest]:
    """Return the ConfigMap with the code of a script, and its job with the code mounted."""
    contents = read_code(script_job.imports)
    name = f"{manifest.name}-code-{secrets.token_hex(3)}"
    raws = [build_code_config_map(name, contents), with_code_mounted(manifest.raw, name, contents)]
    return [as_manifest(raw, str(script_job.imports.script)) for raw in raws]


async def submit_script(target: ClusterTarget, submitter: ManifestSubmitter, manifests: list[Manifest]) -> JobObject:
    """Create the job and the ConfigMap of its code, which is deleted with the job."""
    code = [manifest for manifest in manifests if manifest.kind == CONFIG_MAPS.kind]
    try:
        [job] = await submitter.submit(manifests)
    except Unreachable:
        raise  # the job may exist, and needs its code
    except PliantError:
        # Without its job, nothing would delete the code.
        for manifest in code:
            with suppress(ApiError):
                await target.client.delete(CONFIG_MAPS, _namespace(target, manifest), manifest.name)
        raise
    if submitter.is_dry_run:
        return job
    owning = asyncio.gather(*(_set_owner(target, manifest, job) for manifest in code))
    try:
        await asyncio.shield(owning)
    except asyncio.CancelledError:
        await owning  # otherwise the code would stay when the job is deleted
        raise
    return job


async def _set_owner(target: ClusterTarget, manifest: Manifest, job: JobObject) -> None:
    patch = {"metadata": {"ownerReferences": [_owner_reference(job)]}}
    await target.client.patch(CONFIG_MAPS, _namespace(target, manifest), manifest.name, patch)


def _namespace(target: ClusterTarget, manifest: Manifest) -> str:
    return manifest.namespace or target.default_namespace


def _owner_reference(job: JobObject) -> dict[str, Any]:
    frontend = job.frontend
    return {
        "apiVersion": f"{frontend.group}/{frontend.version}",
        "kind": frontend.kind,
        "name": job.key.name,
        "uid": job.uid,
    }
