"""Suggests fixes for failed containers, by exit code and by their last log lines."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable, Sequence
from signal import Signals
from typing import NamedTuple

from pliant.embedded.kubelet.environment.missing_directories import find_missing_directory, missing_directory_advice
from pliant.embedded.program_annotations import PATH_ANNOTATION, WORKSPACE_ANNOTATION
from pliant.kube.objects import Node
from pliant.model.job import Job
from pliant.model.observed import PodExit
from pliant.model.state import StartFailure

_MEMORY_FIX = "use a smaller batch, or increase the memory in resources.limits"
_LOCAL_PROGRAMS = "local pods use the programs on your PATH, not the image"
_LOCAL_FIX = "start Pliant in the environment that has it, or mount its directory: --mount DIR:/PATH"


class _Fix(NamedTuple):
    """A line in a log, and what helps: on a local cluster, and on others if that differs."""

    pattern: str
    local: str
    remote: str = ""


# the first matching pattern counts
_LOG_PATTERN_FIXES = (
    _Fix(
        r"No module named '?(?P<name>[\w.]+)",
        f"{{python}} has no module `{{name}}`; {_LOCAL_PROGRAMS}: install it, {_LOCAL_FIX}",
        "the Python of the image has no module `{name}`: install it in the image",
    ),
    _Fix(
        r"executable file not found|command not found|: not found$",
        f"check the spelling; {_LOCAL_PROGRAMS}: install it, {_LOCAL_FIX}",
        "check the spelling, and that the image contains the program",
    ),
    _Fix(r"(?i)exec format error", "the program was built for another CPU, or it is a script without a `#!` line"),
    _Fix(
        r"can't open file|cannot open \S+: No such file|No such file or directory",
        "programs start in {workspace}; change it with --workspace or workingDir, or mount the directory of the file: "
        "--mount DIR:/PATH",
        "check the path and the workingDir: the file must be in the image or in a volume",
    ),
    _Fix(r"CUDA out of memory|torch\.(cuda\.)?OutOfMemoryError", "use a smaller batch, or more GPUs"),
    _Fix(r"MemoryError|Cannot allocate memory", _MEMORY_FIX),
    _Fix(r"No space left on device", "free space on the disk or in /dev/shm"),
    _Fix(
        r"Address already in use|EADDRINUSE",
        "another process uses this port; local hostNetwork pods share them; with `--network host`, listen on $POD_IP",
    ),
    _Fix(
        r"Connection refused|Name or service not known|name resolution",
        "replicas start in any order: retry the connection in the program",
    ),
)
MIN_STANDARD_EXIT_CODE = 126  # lower codes are specific to the program


class LocalPrograms(NamedTuple):
    """Where the containers of a local cluster find their programs and files."""

    path: str
    """The PATH of containers."""
    workspace: str

    @classmethod
    def of_nodes(cls, nodes: Iterable[Node]) -> LocalPrograms | None:
        """Return those of the cluster with these nodes; None if it is not a local cluster."""
        for node in nodes:
            if (path := node.metadata.annotations.get(PATH_ANNOTATION)) is not None:
                return cls(path, node.metadata.annotations.get(WORKSPACE_ANNOTATION, ""))
        return None

    def for_job(self, job: Job) -> LocalPrograms:
        """Return those of the pods of a job, which may have a working directory of its own."""
        return self._replace(workspace=job.workspace or self.workspace)

    @property
    def python(self) -> str:
        return shutil.which("python3", path=self.path) or "this Python"


def suggest_fix(container_exit: PodExit | None, log_tail: Sequence[str], local: LocalPrograms | None) -> str:
    """Return the most likely fix; empty if none is known."""
    if container_exit is not None and container_exit.reason == "OOMKilled":
        return _MEMORY_FIX
    text = "\n".join([*log_tail, container_exit.message if container_exit else ""])
    if local is not None and (directory := find_missing_directory(text)):
        return missing_directory_advice(directory)
    for fix in _LOG_PATTERN_FIXES:
        if match := re.search(fix.pattern, text, re.MULTILINE):
            if local is None:
                return (fix.remote or fix.local).format(**match.groupdict())
            return fix.local.format(python=local.python, workspace=local.workspace, **match.groupdict())
    code = container_exit.code if container_exit else None
    return explain_exit(container_exit) if code and code >= MIN_STANDARD_EXIT_CODE else ""


def explain_start_failure(group: str, failure: StartFailure, local: LocalPrograms | None) -> str:
    """Return why the program of a group does not start, and what to try."""
    text = f"{group} ended {failure.count} times within 2s of its start: {failure.cause}"
    fix = suggest_fix(None, [failure.cause], local)
    return f"{text}; suggestion: {fix}" if fix else text


_EXIT_CODE_MEANINGS = {
    1: "1 is a general error; in Python it usually means an uncaught exception",
    2: "2 often means wrong arguments, or that Python did not find the script",
    126: "126: the program is not executable",
    127: "127: the shell did not find the program; check that it is in the image and on the PATH",
    128: "128: the container could not start the program",
}
_SIGNAL_MEANINGS = {
    Signals.SIGABRT: "the program aborted: a failed assertion, or an error in a native library such as NCCL",
    Signals.SIGBUS: "mapped memory was not available; most often /dev/shm is too small or a disk is full",
    Signals.SIGFPE: "an arithmetic error in native code, such as a division by zero",
    Signals.SIGHUP: "its terminal or parent process ended",
    Signals.SIGILL: "the program uses an instruction that this CPU does not have; it was built for another CPU",
    Signals.SIGINT: "it was interrupted",
    Signals.SIGKILL: "the kernel killed it for lack of memory, or a user or process sent SIGKILL",
    Signals.SIGPIPE: "it wrote to a pipe or connection that was closed",
    Signals.SIGSEGV: "an invalid memory access: an error in native code, or mismatched libraries",
    Signals.SIGTERM: "it was asked to stop, as the kubelet does when a pod is deleted",
    Signals.SIGXCPU: "it exceeded its CPU time limit",
}


def explain_exit(container_exit: PodExit | None) -> str:
    """Return the usual meaning of an exit code or signal; empty if it has none."""
    if container_exit is None or container_exit.code is None:
        return ""
    if container_exit.reason == "OOMKilled":
        return "it used more memory than its limit"
    if container_exit.code > 128:
        try:
            return _SIGNAL_MEANINGS.get(Signals(container_exit.code - 128), "")
        except ValueError:
            return ""
    own_code = f"{container_exit.code} is specific to the program; see its last log lines"
    return _EXIT_CODE_MEANINGS.get(container_exit.code, own_code)
