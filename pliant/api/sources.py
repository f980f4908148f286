"""Reads jobs from YAML files, from objects in Python, and from Python programs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from pliant.api.options import JobOptions, JobSource, ProgramOptions, check_program_only, select_options
from pliant.cli.input.local_cluster_options import current_dir
from pliant.cli.input.manifest_checks import frontend_of
from pliant.cli.input.manifests import Manifest, load_manifests
from pliant.cli.input.set_option import with_job_fields_set
from pliant.cli.input.yaml_reader import parse_documents
from pliant.errors import UserError

PROGRAM_SUFFIX = ".py"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobInput:
    """The objects to create, and the directory in which their programs start by default."""

    manifests: list[Manifest]
    workspace: Path
    note: str = ""
    """How the job of a program was made."""

    @property
    def job_names(self) -> list[str]:
        return [manifest.name for manifest in self.manifests if frontend_of(manifest) is not None]


def load_source(source: JobSource, options: JobOptions) -> JobInput:
    """Read a source; raise InvalidInput with the location of each problem."""
    if isinstance(source, (str, PathLike)) and fspath(source).endswith(PROGRAM_SUFFIX):
        job_input = _load_program(Path(source), options)
    else:
        job_input = _load_objects(source)
        check_program_only(_describe(source), select_options(options, ProgramOptions))
        if name := options.get("name"):
            job_input = replace(job_input, manifests=_with_name(job_input, name))
    settings = [f"{path}={json.dumps(value)}" for path, value in options.get("fields", {}).items()]
    return replace(job_input, manifests=with_job_fields_set(job_input.manifests, settings))


def require_one_job(job_input: JobInput, function: str) -> JobInput:
    """Return the input; raise UserError unless it has exactly one job."""
    names = job_input.job_names
    if len(names) > 1:
        fix = f"`{function}_all` returns a list" if function == "submit" else "submit them to a `pliant.cluster()`"
        raise UserError(f"{function}() takes one job, found {len(names)} ({', '.join(names)}); {fix}")
    return job_input


def _load_objects(source: JobSource) -> JobInput:
    if isinstance(source, (str, PathLike)):
        path = fspath(source)
        return JobInput(manifests=load_manifests([path]), workspace=Path(path).absolute().parent)
    objects = [source] if isinstance(source, Mapping) else list(source)
    manifests = [_to_manifest(obj, number) for number, obj in enumerate(objects)]
    return JobInput(manifests=manifests, workspace=current_dir())


def _to_manifest(obj: Mapping[str, Any], number: int) -> Manifest:
    name = f"object {number}"
    try:
        text = json.dumps(obj, indent=2)
    except (TypeError, ValueError) as error:
        raise UserError(f"{name} cannot be written as JSON: {error}; use dicts, lists, strings and numbers") from None
    [document] = parse_documents(name, text.encode())
    for field in ("apiVersion", "kind", "metadata"):
        if not isinstance(document.value, dict) or not document.value.get(field):
            raise UserError(f"{name} has no {field}; write it as in a YAML file")
    return Manifest(document.value, document)


def _with_name(job_input: JobInput, name: str) -> list[Manifest]:
    if len(job_input.job_names) != 1:
        raise UserError(f"name={name!r}: the source has {len(job_input.job_names)} jobs; set their names in the source")
    return with_job_fields_set(job_input.manifests, [f"metadata.name={json.dumps(name)}"])


def _load_program(path: Path, options: JobOptions) -> JobInput:
    from pliant.cli.input.script_job import ScriptOptions, build_script_job

    chosen: dict[str, Any] = select_options(options, ProgramOptions)
    chosen["arguments"] = tuple(map(str, options.get("arguments", ())))
    workspace = current_dir()
    # Programs find the script at a path below their working directory, as the user of a shell does.
    if not path.absolute().is_relative_to(workspace):
        workspace = path.absolute().parent
    script = path.absolute().relative_to(workspace)
    job = build_script_job(ScriptOptions(script=script, name=options.get("name", ""), **chosen))
    note = f"{job.name}: framework {job.framework} ({job.reason})"
    return JobInput(manifests=job.manifests, workspace=workspace, note=note)


def _describe(source: JobSource) -> str:
    return fspath(source) if isinstance(source, (str, PathLike)) else "objects"
