"""`pliant new`: a job and its program to start from."""

from __future__ import annotations

import re
import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pliant.cli.starters import StarterJob

EPILOG = """\
Writes NAME/job.yaml and NAME/train.py; nothing that is there is written over. Both run as they are, on the machine
with `pliant run`, if the framework is installed: `generic` and `elastic` need nothing but Python.

examples:
  pliant new generic hello && pliant run hello/job.yaml
  pliant new elastic mnist                        as an ElasticJob, whose master hands out the data
  pliant new pytorch bert                         as an AITrainingJob
  pliant new pytorch bert --kind kubeflow         as a PyTorchJob of kubeflow.org/v1
  pliant new tensorflow mnist --out jobs/mnist
"""
MAX_NAME_LENGTH = 40
"""Letters of a name: names of pods are longer, and end at 63."""


def configure(parser: ArgumentParser) -> None:
    """Declare the options."""
    from pliant.cli.starters import AITRAININGJOB, ELASTICJOB, KUBEFLOW, STARTERS

    parser.epilog = EPILOG
    parser.add_argument("framework", choices=STARTERS, metavar="FRAMEWORK", help=", ".join(STARTERS))
    parser.add_argument("name", metavar="NAME", help="of the job, and of the folder")
    parser.add_argument(
        "--kind", choices=(AITRAININGJOB, KUBEFLOW, ELASTICJOB), help="how to write it (the first that fits)"
    )
    parser.add_argument("--out", type=Path, metavar="DIR", help="the folder (NAME)")


def execute(args: Namespace) -> int:
    """Write the files, and say what to do with them."""
    from pliant.cli.starters import STARTERS, program_files, render_job

    _check_name(args.name)
    starter = STARTERS[args.framework]
    kind = _choose_kind(args, starter)
    folder = args.out or Path(args.name)
    texts = {folder / "job.yaml": render_job(args.framework, args.name, kind)}
    texts |= {folder / name: text for name, text in program_files(args.framework).items()}
    _write_files(folder, texts)
    *first, last = map(str, texts)
    needs = f"  pip install {starter.pip_packages}\n" if starter.pip_packages else ""
    sys.stderr.write(
        f"wrote {', '.join(first)} and {last}\nNext:\n{needs}"
        f"  pliant run {folder}/job.yaml\n"
        f"  edit {folder}/train.py; lines as `pliant: step=10 loss=0.5` show as progress\n"
    )
    return 0


def _choose_kind(args: Namespace, starter: StarterJob) -> str:
    from pliant.errors import UserError

    kind = str(args.kind or starter.kinds[0])
    if kind not in starter.kinds:
        raise UserError(f"{args.framework} jobs are not written as {kind}; leave --kind out")
    return kind


def _check_name(name: str) -> None:
    from pliant.errors import UserError

    if len(name) > MAX_NAME_LENGTH or not re.fullmatch(r"[a-z]([-a-z0-9]*[a-z0-9])?", name):
        raise UserError(f"`{name}` cannot name a job; use a-z, 0-9 and `-`, a letter first, {MAX_NAME_LENGTH} at most")


def _write_files(directory: Path, contents: dict[Path, str]) -> None:
    """Write all files or, if one of them is there, none."""
    from pliant.errors import UserError

    for path in contents:
        if path.exists() or path.is_symlink():
            raise UserError(f"{path} is there already; take it away, or name another folder with --out")
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for path, text in contents.items():
            with path.open("x") as file:
                file.write(text)
    except OSError as problem:
        raise UserError(f"{problem.filename or directory} cannot be written: {problem.strerror}") from None
