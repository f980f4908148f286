"""Submits a Python program to a running cluster, with its local modules if that is not on this machine."""

from __future__ import annotations

from os import fspath
from pathlib import Path
from typing import cast

from pliant.api.access import ClusterAccess, api_errors
from pliant.api.async_job import AsyncJobHandle
from pliant.api.options import JobSource, SubmitOptions
from pliant.api.sources import build_program_job, field_settings
from pliant.cli.cluster.apply import kind_registry_for_manifests
from pliant.cli.cluster.submission import ManifestSubmitter, ReplacePolicy
from pliant.cli.input.local_cluster_options import current_dir
from pliant.cli.input.manifest_checks import check_jobs_and_plans
from pliant.cli.input.manifests import Manifest
from pliant.cli.input.set_option import with_job_fields_set
from pliant.cli.input.workspace_annotation import with_workspace
from pliant.errors import UserError


async def submit_program(access: ClusterAccess, source: JobSource, options: SubmitOptions) -> AsyncJobHandle:
    """Create a job for a program."""
    from pliant.cli.script.submission import submit_script

    manifests = _load_program(Path(fspath(cast("str", source))), options)
    # On a cluster of this machine, a program is usually run again and again.
    policy = ReplacePolicy(
        replaces_active=options.get("replace", False), replaces_finished=bool(options.get("cluster"))
    )
    with api_errors():
        async with access.connect() as target:
            check_jobs_and_plans(manifests, kind_registry_for_manifests(manifests), target.default_namespace)
            job = await submit_script(target, ManifestSubmitter(target, policy), manifests)
            return AsyncJobHandle(access, job)


def _load_program(path: Path, options: SubmitOptions) -> list[Manifest]:
    """Return the objects of a program, with its code unless the cluster is on this machine."""
    from pliant.cli.script.code_shipping import CODE_DIR
    from pliant.cli.script.submission import ship_code

    settings = field_settings(options)
    if options.get("cluster"):
        local_job = build_program_job(path, options)
        return with_workspace(with_job_fields_set(local_job.manifests, settings), current_dir(), overwrite=True)
    if not options.get("image"):
        raise UserError("image= is required to submit a program: name an image that has Python and the framework")
    job = build_program_job(path, options, code_dir=CODE_DIR)
    [manifest] = with_job_fields_set(job.manifests, settings)
    return ship_code(job, manifest)
