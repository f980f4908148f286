"""Owns the processes of one control plane: when its owner is gone, so are they and their files.

Run as a program of its own with the standard library alone: `supervisor.py FOLDER`. One JSON object a line comes
in and one goes out. The end of the input is the end of the owner, however that came about.
"""

import ctypes
import fcntl
import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

LOCK = "lock"
"""Held for as long as the folder is in use."""
_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None)

_processes: dict[str, subprocess.Popen[bytes]] = {}


def _die_with_parent() -> None:
    """Should the supervisor itself be killed, its children are not left behind."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _start(name: str, argv: list[str], log: str) -> dict[str, Any]:
    with open(log, "ab") as output:  # noqa: PTH123
        _processes[name] = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, preexec_fn=_die_with_parent
        )
    return {"pid": _processes[name].pid}


def _stop(name: str, number: int) -> dict[str, Any]:
    process = _processes.pop(name)
    process.send_signal(number)
    return {"code": process.wait()}


def _answer(request: dict[str, Any]) -> dict[str, Any]:
    try:
        match request:
            case {"start": str(name), "argv": list(argv), "log": str(log)}:
                return _start(name, argv, log)
            case {"stop": str(name), "signal": int(number)}:
                return _stop(name, number)
            case {"code": str(name)}:
                return {"code": _processes[name].poll()}
            case _:
                return {"error": f"not understood: {request}"}
    except (OSError, KeyError) as problem:
        return {"error": repr(problem)}


def main(folder: Path) -> None:
    """Serve the owner until it is gone, then leave nothing."""
    draft = folder / f"{LOCK}.new"
    with draft.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        draft.rename(folder / LOCK)  # never seen unlocked, or somebody would sweep us away
        for line in sys.stdin:
            print(json.dumps(_answer(json.loads(line))), flush=True)
        for process in _processes.values():
            process.kill()
        for process in _processes.values():
            process.wait()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)
    main(Path(sys.argv[1]))
