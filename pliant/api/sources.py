"""Reads jobs from YAML files, from objects in Python, and from Python programs."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from pliant.api.options import (
    JobOptions,
    JobSource,
    ProgramOptions,
    check_program_only,
    check_program_options,
    select_options,
)
from pliant.cli.input.local_cluster_options import current_dir
from pliant.cli.input.manifest_checks import frontend_of
from pliant.cli.input.manifests import Manifest, load_manifests
from pliant.cli.input.set_option import with_job_fields_set
from pliant.cli.input.yaml_reader import parse_documents
from pliant.errors import UserError

if TYPE_CHECKING:
    from pliant.cli.script.script_job import ScriptJob

PROGRAM_SUFFIX = ".py"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedSource:
    """The objects to create, and the directory in which their programs start by default."""

    manifests: list[Manifest]
    workspace: Path
    note: str = ""
    """How the job of a program was made."""

    @property
    def job_names(self) -> list[str]:
        return [manifest.name for manifest in self.manifests if frontend_of(manifest) is not None]


def load_source(source: JobSource, options: JobOptions) -> LoadedSource:
    """Read a source; raise InvalidInput with the location of each problem."""
    if is_program(source):
        loaded = _load_program(Path(cast("str", source)), options)
    else:
        loaded = _load_objects(source)
        check_program_only(_describe(source), select_options(options, ProgramOptions))
        if name := options.get("name"):
            loaded = replace(loaded, manifests=_with_name(loaded, name))
    return replace(loaded, manifests=with_job_fields_set(loaded.manifests, field_settings(options)))


def require_one_job(loaded: LoadedSource, function: str) -> LoadedSource:
    """Return the input; raise UserError unless it has exactly one job."""
    names = loaded.job_names
    if len(names) > 1:
        fix = f"`{function}_all` returns a list" if function == "submit" else "submit them to a `pliant.cluster()`"
        raise UserError(f"{function}() takes one job, found {len(names)} ({', '.join(names)}); {fix}")
    return loaded


def _load_objects(source: JobSource) -> LoadedSource:
    if isinstance(source, (str, PathLike)):
        path = fspath(source)
        return LoadedSource(manifests=load_manifests([path]), workspace=Path(path).absolute().parent)
    value: object = source
    if not isinstance(value, Sequence | Mapping):
        raise TypeError(f"source: a path, a dict or a list of dicts is required, not {type(source).__name__}")
    objects = [source] if isinstance(source, Mapping) else list(source)
    manifests = [_to_manifest(obj, number) for number, obj in enumerate(objects)]
    return LoadedSource(manifests=manifests, workspace=current_dir())


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


def _with_name(loaded: LoadedSource, name: str) -> list[Manifest]:
    if len(loaded.job_names) != 1:
        raise UserError(f"name={name!r}: the source has {len(loaded.job_names)} jobs; set their names in the source")
    return with_job_fields_set(loaded.manifests, [f"metadata.name={json.dumps(name)}"])


def is_program(source: JobSource) -> bool:
    return isinstance(source, (str, PathLike)) and fspath(source).endswith(PROGRAM_SUFFIX)


def field_settings(options: JobOptions) -> list[str]:
    """Return the fields to set as the option `--set` takes them."""
    return [f"{path}={json.dumps(value)}" for path, value in options.get("fields", {}).items()]


def build_program_job(path: Path, options: JobOptions, *, code_dir: str = "") -> ScriptJob:
    """Build the job of a program; `code_dir` is where the cluster finds it, by default where this machine does."""
    from pliant.cli.script.script_job import ScriptOptions, build_script_job

    check_program_options(options)
    chosen: dict[str, Any] = select_options(options, ProgramOptions)
    chosen["env"] = {name: str(value) for name, value in options.get("env", {}).items()}
    chosen["arguments"] = tuple(map(str, options.get("arguments", ())))
    chosen |= {"name": options.get("name", ""), "code_dir": code_dir}
    if not code_dir and sys.executable:
        chosen["python"] = sys.executable  # the environment of the caller, which need not be on the PATH
    # An absolute path, because a cluster may start programs in another directory.
    return build_script_job(ScriptOptions(script=path.absolute(), **chosen))


def _load_program(path: Path, options: JobOptions) -> LoadedSource:
    job = build_program_job(path, options)
    note = f"{job.name}: framework {job.framework} ({job.reason})"
    return LoadedSource(manifests=job.manifests, workspace=current_dir(), note=note)


def _describe(source: JobSource) -> str:
    return fspath(source) if isinstance(source, (str, PathLike)) else "objects"
