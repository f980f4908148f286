"""Options of the commands that run a Python script, and the input files of `pliant run` and `pliant submit`."""

from __future__ import annotations

import re
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pliant.cli.input.local_cluster_options import parse_non_negative_int, parse_positive_int
from pliant.cli.input.problems import input_error
from pliant.cli.script.imports import SCRIPT_FRAMEWORKS

if TYPE_CHECKING:
    from pliant.cli.input.manifests import Manifest
    from pliant.cli.script.script_job import ScriptJob, ScriptOptions

SCRIPT_SUFFIX = ".py"
# the options that only scripts have, and what to do instead in a YAML file
_SCRIPT_ONLY_OPTIONS = {
    "workers": "use --set spec.replicaSpecs.worker.replicas=N",
    "gpus": "write resources.limits in the template",
    "framework": "write spec.frameworkType",
    "elastic": "write minReplicas and maxReplicas of the group",
    "restarts": "write restartPolicy and restartLimit of the group",
    "name": "use --set metadata.name=NAME",
    "image": "write the image in the template",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class JobInput:
    """The objects to create, and how the job of a script was made."""

    manifests: list[Manifest]
    script_job: ScriptJob | None = None

    @property
    def notes(self) -> list[str]:
        """What the user should know about the job of a script."""
        job = self.script_job
        return [f"{job.name}: framework {job.framework} ({job.reason})"] if job else []


def add_script_options(parser: ArgumentParser) -> None:
    scripts = parser.add_argument_group("scripts (FILE.py); arguments of the script follow `--`")
    scripts.add_argument("--workers", "-w", type=parse_positive_int, metavar="N", help="Number of workers (1)")
    scripts.add_argument("--gpus", type=parse_non_negative_int, metavar="N", help="GPUs of each worker (0)")
    framework_help = f"{', '.join(SCRIPT_FRAMEWORKS)} (default: the one that the script imports)"
    scripts.add_argument("--framework", choices=SCRIPT_FRAMEWORKS, metavar="NAME", help=framework_help)
    elastic_help = "Bounds between which the job may be scaled, such as 2..8"
    scripts.add_argument("--elastic", type=_parse_range, metavar="MIN..MAX", help=elastic_help)
    restarts_help = "How often failed workers are restarted (0; with --elastic 3)"
    scripts.add_argument("--restarts", type=parse_non_negative_int, metavar="N", help=restarts_help)
    scripts.add_argument("--name", metavar="NAME", help="Name of the job (default: the name of the file)")
    image_help = "Image of the workers; required on a cluster, ignored on this machine"
    scripts.add_argument("--image", metavar="IMAGE", help=image_help)


def _parse_range(text: str) -> tuple[int, int]:
    bounds = re.fullmatch(r"(\d{1,6})(?:\.\.|:|-)(\d{1,6})", text)
    if not bounds:
        raise ArgumentTypeError(f"`{text}` is not a range of workers; write MIN..MAX, for example 2..8")
    return int(bounds[1]), int(bounds[2])


def is_script(args: Namespace) -> bool:
    return len(args.files) == 1 and str(args.files[0]).endswith(SCRIPT_SUFFIX)


def load_job_input(args: Namespace, *, code_dir: str = "") -> JobInput:
    """Read the files of a command, or build the job of its script; `code_dir` is where the cluster finds the script."""
    from pliant.cli.input.manifests import load_manifests
    from pliant.cli.input.set_option import with_job_fields_set

    _check_file_names(args.files)
    if is_script(args):
        from pliant.cli.script.script_job import build_script_job

        job = build_script_job(_script_options(args, code_dir))
        return JobInput(manifests=with_job_fields_set(job.manifests, args.set), script_job=job)
    _check_no_script_options(args)
    return JobInput(manifests=with_job_fields_set(load_manifests(args.files), args.set))


def _script_options(args: Namespace, code_dir: str) -> ScriptOptions:
    from pliant.cli.script.script_job import ScriptOptions

    return ScriptOptions(
        script=Path(args.files[0]),
        arguments=tuple(args.program_arguments),
        workers=args.workers,
        gpus=args.gpus or 0,
        framework=args.framework or "",
        elastic=args.elastic,
        restarts=args.restarts,
        name=args.name or "",
        image=args.image or "",
        code_dir=code_dir,
    )


def _check_file_names(files: list[str]) -> None:
    scripts = [file for file in files if file.endswith(SCRIPT_SUFFIX)]
    if scripts and len(files) > 1:
        fix = f"arguments of the script follow `--`: pliant run {scripts[0]} -- ARGUMENTS"
        raise input_error("a script cannot be combined with other files", fix=fix)


def _check_no_script_options(args: Namespace) -> None:
    for option, instead in _SCRIPT_ONLY_OPTIONS.items():
        if getattr(args, option, None) is not None:
            raise input_error(f"--{option} applies to scripts (FILE.py), not to {args.files[0]}", fix=instead)
    if args.program_arguments:
        fix = "write them into the command of the template"
        raise input_error(f"arguments after `--` apply to scripts (FILE.py), not to {args.files[0]}", fix=fix)
