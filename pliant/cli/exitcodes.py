"""What the end of a program means to people who have seen many of them."""

from __future__ import annotations

from signal import Signals

from pliant.model.observed import Exit

_CODES = {
    1: "1 is what most programs say when something went wrong; for Python it is an exception that nobody caught",
    2: "2 often means wrong arguments, or that Python was given a file that is not there",
    126: "126: the program was found but may not be executed",
    127: "127: the shell did not find the program; is it in the image and on the PATH?",
    128: "128: the program could not be started at all",
}
_SIGNALS = {
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


def meaning_of(end: Exit | None) -> str:
    """What usually stands behind an end, in a sentence; empty where there is nothing to add."""
    if end is None or end.code is None:
        return ""
    if end.reason == "OOMKilled":
        return "it needed more memory than its limit allows"
    if end.code > 128:
        try:
            return _SIGNALS.get(Signals(end.code - 128), "")
        except ValueError:
            return ""
    return _CODES.get(end.code, f"{end.code} is the program's own code; its last lines say what it means by it")
