"""What to try after a member of a run has failed: by the way it ended, and by its last words."""

from __future__ import annotations

import re
from collections.abc import Sequence
from signal import Signals

from pliant.model.observed import PodExit

_MEMORY_FIX = "a smaller batch, or more memory in resources.limits"
_PROGRAM_FIX = (
    "images are not run: programs are those on your PATH, so install it, or activate the environment that has it"
)
_LOG_PATTERN_FIXES = (
    (r"No module named '?(?P<name>[\w.]+)", "`{name}` is not there for this Python; " + _PROGRAM_FIX),
    (r"executable file not found", "is it spelt well? " + _PROGRAM_FIX),
    (r"command not found|: not found$", "is it spelt well? " + _PROGRAM_FIX),
    (
        r"can't open file|No such file or directory",
        "programs start in the folder of the first FILE; --workspace DIR or workingDir names another",
    ),
    (r"CUDA out of memory|torch\.(cuda\.)?OutOfMemoryError", "a smaller batch, or more GPUs"),
    (r"MemoryError|Cannot allocate memory", _MEMORY_FIX),
    (r"No space left on device", "make room on the disk, or in /dev/shm"),
    (
        r"Address already in use|EADDRINUSE",
        "another process has this port; pods that share this machine's network each listen at $POD_IP",
    ),
    (
        r"Connection refused|Name or service not known|name resolution",
        "members start in any order: let the program try again for a while",
    ),
)
"""What is found in last lines, and what helps; the first that fits counts."""
MIN_TELLING_EXIT_CODE = 126
"""The lowest exit code that tells something of its own."""


def suggest_fix(container_exit: PodExit | None, log_tail: Sequence[str]) -> str:
    """The one thing most likely to help; empty where nothing is known."""
    if container_exit is not None and container_exit.reason == "OOMKilled":
        return _MEMORY_FIX
    said = "\n".join([*log_tail, container_exit.message if container_exit else ""])
    for pattern, help_ in _LOG_PATTERN_FIXES:
        if found := re.search(pattern, said, re.MULTILINE):
            return help_.format(**found.groupdict())
    return (
        explain_exit(container_exit)
        if container_exit and container_exit.code and container_exit.code >= MIN_TELLING_EXIT_CODE
        else ""
    )


_EXIT_CODE_MEANINGS = {
    1: "1 is what most programs say when something went wrong; for Python it is an exception that nobody caught",
    2: "2 often means wrong arguments, or that Python was given a file that is not there",
    126: "126: the program was found but may not be executed",
    127: "127: the shell did not find the program; is it in the image and on the PATH?",
    128: "128: the program could not be started at all",
}
_SIGNAL_MEANINGS = {
    Signals.SIGABRT: "it gave up by itself: a failed assertion, or an error in a native library such as NCCL",
    Signals.SIGBUS: "memory it had mapped was not there; most often /dev/shm is too small or a disk is full",
    Signals.SIGFPE: "an impossible calculation in native code, such as a division by zero",
    Signals.SIGHUP: "its terminal or parent went away",
    Signals.SIGILL: "it ran an instruction that this CPU does not have; was the program built for another one?",
    Signals.SIGINT: "somebody interrupted it",
    Signals.SIGKILL: "the kernel for lack of memory, or somebody with kill -9, ended it without warning",
    Signals.SIGPIPE: "it wrote to something that nobody reads any more",
    Signals.SIGSEGV: "it touched memory that is not its own: an error in native code, or mismatched libraries",
    Signals.SIGTERM: "somebody asked it to stop, as a cluster does when a pod has to leave",
    Signals.SIGXCPU: "it used more CPU time than it may",
}


def explain_exit(container_exit: PodExit | None) -> str:
    """What usually stands behind an end, in a sentence; empty where there is nothing to add."""
    if container_exit is None or container_exit.code is None:
        return ""
    if container_exit.reason == "OOMKilled":
        return "it needed more memory than its limit allows"
    if container_exit.code > 128:
        try:
            return _SIGNAL_MEANINGS.get(Signals(container_exit.code - 128), "")
        except ValueError:
            return ""
    return _EXIT_CODE_MEANINGS.get(
        container_exit.code, f"{container_exit.code} is the program's own code; its last lines say what it means by it"
    )
