"""Submits a Python program and its local modules to a running cluster."""

from __future__ import annotations

from argparse import Namespace
from os import fspath
from typing import cast

from pliant.api.access import ClusterAccess, api_errors
from pliant.api.async_job import AsyncJobHandle
from pliant.api.options import JobSource, SubmitOptions
from pliant.api.sources import field_settings
from pliant.cli.cluster.apply import kind_registry_for_manifests
from pliant.cli.input.manifest_checks import check_jobs_and_plans
from pliant.errors import UserError


async def submit_program(access: ClusterAccess, source: JobSource, options: SubmitOptions) -> AsyncJobHandle:
    """Create a job for a program, with a ConfigMap that holds its code."""
    from pliant.cli.script.submission import load_script_for_cluster, submit_script  # type: ignore[import-not-found,unused-ignore]

    if options.get("env"):
        raise UserError("env= does not apply to programs on a running cluster; set it in the program or in the image")
    arguments = _run_arguments(source, options)
    script = load_script_for_cluster(arguments)
    with api_errors():
        async with access.connect() as target:
            registry = kind_registry_for_manifests(script.manifests)
            check_jobs_and_plans(script.manifests, registry, target.default_namespace)
            return AsyncJobHandle(access, await submit_script(target, arguments, script))


def _run_arguments(source: JobSource, options: SubmitOptions) -> Namespace:
    """Return the options as the parser of `pliant run` does."""
    return Namespace(
        files=[fspath(cast("str", source))],
        program_arguments=[str(argument) for argument in options.get("arguments", ())],
        workers=options.get("workers"),
        gpus=options.get("gpus"),
        framework=options.get("framework"),
        elastic=options.get("elastic"),
        restarts=options.get("restarts"),
        name=options.get("name"),
        image=options.get("image"),
        cluster=options.get("cluster"),
        workspace=None,
        set=field_settings(options),
        ship=True,
        replace=options.get("replace", False),
        dry_run=None,
    )
