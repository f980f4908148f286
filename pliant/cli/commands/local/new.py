"""`pliant new`: creates a starter job and its training program."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path

from pliant.errors import UserError

DESCRIPTION = "Create a starter job: NAME/job.yaml and the training program NAME/train.py. No file is overwritten."
EPILOG = """\
The job runs unchanged with `pliant run` if the framework is installed; `generic` and `elastic` need only Python.

examples:
  pliant new generic hello && pliant run hello/job.yaml
  pliant new elastic mnist                        an ElasticJob, whose master assigns the data
  pliant new pytorch bert                         an AITrainingJob
  pliant new pytorch bert --kind kubeflow         a PyTorchJob of kubeflow.org/v1
  pliant new tensorflow mnist --out jobs/mnist
"""


def configure(parser: ArgumentParser) -> None:
    from pliant.cli.starters import AITRAININGJOB, ELASTICJOB, KUBEFLOW, STARTERS_BY_FRAMEWORK

    parser.add_argument(
        "framework", choices=STARTERS_BY_FRAMEWORK, metavar="FRAMEWORK", help=", ".join(STARTERS_BY_FRAMEWORK)
    )
    parser.add_argument("name", metavar="NAME", help="Name of the job and of the directory")
    kinds = (AITRAININGJOB, KUBEFLOW, ELASTICJOB)
    parser.add_argument("--kind", choices=kinds, help="Kind of the job (default: the usual kind of the framework)")
    parser.add_argument("--out", type=Path, metavar="DIR", help="Directory to write to (default: NAME)")


def execute(args: Namespace) -> int:
    from pliant.cli.input.job_names import check_job_name
    from pliant.cli.starters import STARTERS_BY_FRAMEWORK, render_starter_job, starter_program_files

    check_job_name(args.name)
    starter = STARTERS_BY_FRAMEWORK[args.framework]
    kind = str(args.kind or starter.kinds[0])
    if kind not in starter.kinds:
        raise UserError(f"--kind: {args.framework} has no {kind} starter; use one of: {', '.join(starter.kinds)}")
    directory = args.out or Path(args.name)
    contents = {directory / "job.yaml": render_starter_job(args.framework, args.name, kind)}
    contents |= {directory / name: text for name, text in starter_program_files(args.framework).items()}
    _write_files(directory, contents)
    *first, last = map(str, contents)
    pip_line = f"  pip install {starter.pip_packages}\n" if starter.pip_packages else ""
    sys.stderr.write(
        f"wrote {', '.join(first)} and {last}\nNext:\n{pip_line}"
        f"  pliant run {directory}/job.yaml\n"
        f"  edit {directory}/train.py; lines such as `pliant: step=10 loss=0.5` are shown as progress\n"
    )
    return 0


def _write_files(directory: Path, contents: dict[Path, str]) -> None:
    """Write all files, or none if one of them exists."""

    for path in contents:
        if path.exists() or path.is_symlink():
            raise UserError(f"{path} already exists; delete it, or choose another directory with --out")
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for path, text in contents.items():
            with path.open("x") as file:
                file.write(text)
    except OSError as error:
        raise UserError(f"cannot write {error.filename or directory}: {error.strerror}") from None
