"""Suggests fixes for failed containers, by exit code and by their last log lines."""

from __future__ import annotations

import re
from collections.abc import Sequence
from signal import Signals

from pliant.model.observed import PodExit

_MEMORY_FIX = "use a smaller batch, or increase the memory in resources.limits"
_PROGRAM_FIX = "local pods use the programs on your PATH, not the image: install it, or activate its environment"
# the first matching pattern counts
_LOG_PATTERN_FIXES = (
    (r"No module named '?(?P<name>[\w.]+)", "this Python has no module `{name}`; " + _PROGRAM_FIX),
    (r"executable file not found|command not found|: not found$", "check the spelling; " + _PROGRAM_FIX),
    (
        r"can't open file|No such file or directory",
        "programs start in the directory of the first FILE; change it with --workspace or workingDir",
    ),
    (r"CUDA out of memory|torch\.(cuda\.)?OutOfMemoryError", "use a smaller batch, or more GPUs"),
    (r"MemoryError|Cannot allocate memory", _MEMORY_FIX),
    (r"No space left on device", "free space on the disk or in /dev/shm"),
    (
        r"Address already in use|EADDRINUSE",
        "another process uses this port; local hostNetwork pods share them; with `--network host`, listen on $POD_IP",
    ),
    (
        r"Connection refused|Name or service not known|name resolution",
        "replicas start in any order: retry the connection in the program",
    ),
)
MIN_STANDARD_EXIT_CODE = 126  # lower codes are specific to the program


def suggest_fix(container_exit: PodExit | None, log_tail: Sequence[str]) -> str:
    """Return the most likely fix; empty if none is known."""
    if container_exit is not None and container_exit.reason == "OOMKilled":
        return _MEMORY_FIX
    text = "\n".join([*log_tail, container_exit.message if container_exit else ""])
    for pattern, fix in _LOG_PATTERN_FIXES:
        if match := re.search(pattern, text, re.MULTILINE):
            return fix.format(**match.groupdict())
    code = container_exit.code if container_exit else None
    return explain_exit(container_exit) if code and code >= MIN_STANDARD_EXIT_CODE else ""


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
