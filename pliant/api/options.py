"""The keyword arguments of the Python API, and their checks."""

from __future__ import annotations

import shlex
from argparse import ArgumentError, ArgumentParser, Namespace
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from difflib import get_close_matches
from inspect import get_annotations
from os import PathLike, fspath
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypedDict, cast

from pliant.cli.input.autoscale_options import add_autoscale_options
from pliant.cli.input.local_cluster_options import add_local_cluster_options
from pliant.errors import UserError

JobSource: TypeAlias = str | PathLike[str] | Mapping[str, Any] | Sequence[Mapping[str, Any]]
"""The path of a Python program or of a YAML file, or an object or several, as a YAML file contains them."""

Timeout: TypeAlias = float | timedelta | None
"""Seconds, or a timedelta; None means no limit."""

_MAX_SECONDS = timedelta(days=365).total_seconds()


class ProgramOptions(TypedDict, total=False):
    """How a Python program becomes a job."""

    workers: int
    """Number of workers (1)."""
    gpus: int
    """GPUs of each worker (0)."""
    framework: str
    """Name of the framework; by default the one that the program imports."""
    elastic: tuple[int, int]
    """Bounds between which the job may be scaled."""
    restarts: int
    """How often failed workers are restarted (0; 3 if the job is elastic)."""
    arguments: Sequence[str]
    """Arguments of the program."""
    env: Mapping[str, str]
    """Environment variables of the workers."""
    image: str
    """Image of the workers; required on a real cluster, ignored on this machine."""


class JobOptions(ProgramOptions, total=False):
    """Options of a job: those of programs, and those of every job."""

    name: str
    """Name of the job; by default that in the file, or that of the program's file."""
    fields: Mapping[str, Any]
    """Fields of the job to set, such as `{"spec.replicaSpecs.worker.replicas": 4}`."""
    replace: bool
    """Delete a job of the same name first, even if it is active."""


class ClusterOptions(TypedDict, total=False):
    """Options of a temporary cluster: those of `pliant run` and `pliant up`."""

    nodes: int
    """Number of nodes (1)."""
    cpus: int
    """CPUs of each node (all of this machine)."""
    memory: str
    """Memory of each node, such as `8Gi` (all of this machine)."""
    gpus: int
    """GPUs of each node; simulated if this machine has fewer."""
    workspace: str | PathLike[str]
    """Working directory of programs (the current directory)."""
    mounts: Sequence[str]
    """Directories to mount into all containers: `DIR:/PATH` or `DIR:/PATH:ro`."""
    network: Literal["private", "host"]
    """Network of the pods (private where this machine allows it)."""
    egress: bool
    """Whether pods may connect to external addresses (True)."""
    autoscale: str
    """Policy of the autoscaler: `fair`, `edl`, `goodput` or `off` (fair)."""


class SelectionOptions(TypedDict, total=False):
    """Selects a running cluster, as the options of the same names of the commands do."""

    context: str
    """Context of the kubeconfig."""
    kubeconfig: str | PathLike[str]
    """Path of the kubeconfig file."""
    cluster: str
    """Name of a local cluster of `pliant up`."""
    namespace: str
    """Namespace of the jobs (that of the context)."""


class RunOptions(JobOptions, total=False):
    """Options of `run`; for other options of its cluster, use `cluster`."""

    nodes: int
    """Number of nodes (1)."""
    workspace: str | PathLike[str]
    """Working directory of the programs (of a program the current directory, of a YAML file its directory)."""


class SubmitOptions(JobOptions, SelectionOptions, total=False):
    """Options of `submit`."""


_COMMAND_OPTIONS = {
    "nodes": "--nodes",
    "cpus": "--node-cpu",
    "memory": "--node-memory",
    "gpus": "--node-gpu",
    "network": "--network",
    "autoscale": "--autoscale",
}


def check_keywords(function: str, options: Mapping[str, Any], *kinds: type) -> None:
    """Raise TypeError for a keyword that none of these TypedDicts has."""
    known = sorted({name for kind in kinds for name in get_annotations(kind)})
    for name in options:
        if name not in known:
            close = get_close_matches(name, known, n=1)
            hint = f"did you mean `{close[0]}`?" if close else f"keywords: {', '.join(known)}"
            raise TypeError(f"{function}() has no keyword `{name}`; {hint}")


def select_options(options: Mapping[str, Any], kind: type) -> dict[str, Any]:
    """Return the options that a TypedDict has."""
    return {name: value for name, value in options.items() if name in get_annotations(kind)}


def parse_cluster_options(options: ClusterOptions) -> Namespace:
    """Check the options of a cluster like those of `pliant run`; return them as its parser does."""
    check_keywords("cluster", options, ClusterOptions)
    values = cast("Mapping[str, Any]", options)
    arguments = [f"{flag}={values[name]}" for name, flag in _COMMAND_OPTIONS.items() if values.get(name) is not None]
    arguments += [f"--mount={mount}" for mount in options.get("mounts", ())]
    arguments += [] if options.get("egress", True) else ["--no-egress"]
    parser = ArgumentParser(exit_on_error=False, add_help=False)
    add_local_cluster_options(parser)
    add_autoscale_options(parser)
    try:
        return parser.parse_args(arguments)
    except ArgumentError as error:
        keywords = {flag: name for name, flag in {**_COMMAND_OPTIONS, "mounts": "--mount"}.items()}
        raise UserError(f"{keywords.get(str(error.argument_name), error.argument_name)}: {error.message}") from None


def selection_arguments(options: SelectionOptions) -> Namespace:
    """Return the options as the parser of the commands does."""
    kubeconfig = options.get("kubeconfig")
    return Namespace(
        kubeconfig=Path(fspath(kubeconfig)) if kubeconfig else None,
        context=options.get("context"),
        cluster=options.get("cluster"),
        namespace=options.get("namespace"),
    )


def to_timedelta(timeout: Timeout) -> timedelta | None:
    """Return a timeout as a timedelta; raise UserError if it is not positive."""
    if timeout is None:
        return None
    seconds = timeout.total_seconds() if isinstance(timeout, timedelta) else float(timeout)
    if not seconds > 0:
        raise UserError(f"timeout={timeout!r}: not a positive number of seconds; leave it out for no limit")
    return timedelta(seconds=min(seconds, _MAX_SECONDS))


def check_program_only(source: str, options: Iterable[str]) -> None:
    """Raise UserError for options that only programs have."""
    for name in options:
        fix = "set fields of the job with fields={'spec.…': …}, or write them in the YAML"
        raise UserError(f"{name}= applies to Python programs, not to {source}; {fix}")


def check_program_options(options: ProgramOptions) -> None:
    """Raise UserError for a value of the wrong type, which would be misunderstood or fail with an unclear error."""
    for name, least in (("workers", 1), ("gpus", 0), ("restarts", 0)):
        number = options.get(name)
        if number is not None and (not _is_int(number) or cast("int", number) < least):
            raise UserError(f"{name}={number!r}: not an integer of at least {least}; write {name}=2, for example")
    elastic: Any = options.get("elastic")
    if elastic is not None and not (isinstance(elastic, Sequence) and len(elastic) == 2 and all(map(_is_int, elastic))):
        raise UserError(f"elastic={elastic!r}: not two bounds; write elastic=(2, 8), for example")
    arguments = options.get("arguments", ())
    if isinstance(arguments, str):
        raise UserError(f"arguments={arguments!r}: not a list; write arguments={shlex.split(arguments)!r}")


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def to_workspace(directory: str | PathLike[str]) -> Path:
    """Return a working directory as an absolute path; raise UserError if it does not exist."""
    path = Path(directory).absolute()
    if not path.is_dir():
        raise UserError(f"workspace={fspath(directory)!r}: not a directory; create it, or choose another one")
    return path
