"""Answer the parent's requests, and tell it when containers and sessions end."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from pliant.embedded.agent.cells import Cells
from pliant.embedded.agent.door import opened
from pliant.embedded.agent.ground import Ground
from pliant.embedded.agent.process import END_ALL, Program
from pliant.embedded.agent.sandbox import Sandbox
from pliant.embedded.agent.usage import Processes

Message = dict[str, Any]


class _Run:
    """One container or session that was started and has not been reaped."""

    def __init__(self, pod: str, name: str, process: int, asked: int, program: Program | None = None) -> None:
        self.pod = pod
        self.name = name
        self.process = process
        self.asked = asked
        self.program = program
        """What a container runs; its sessions get the same variables and folder."""
        self.sessions: list[str] = []
        self.is_answered = False
        self.is_started = False
        self.heard = b""
        self.ending: tuple[int, int] | None = None
        self.is_outgrown = False
        self.cell = ""
        """The control group that keeps its limits, if one does."""


class _Pod:
    """One sandbox, and the report pipe of each container in it that has not been reaped."""

    def __init__(self, sandbox: Sandbox) -> None:
        self.sandbox = sandbox
        self.runs: dict[str, int] = {}
        self.removal: int | None = None
        """The request to remove it, to be answered when the last container is gone."""


class Service:
    """The agent's only loop: a socket to the parent, one for descriptors from it, a pipe from each container."""

    def __init__(
        self, parent: socket.socket, handover: socket.socket, ground: Ground, cells: Cells | None
    ) -> None:
        self._parent = parent
        self._handover = handover
        self._handed: dict[int, list[int]] = {}
        """Descriptors that have arrived before the request that they belong to."""
        self._ground = ground
        self._cells = cells
        self._poll = select.epoll()
        self._pods: dict[str, _Pod] = {}
        self._runs: dict[int, _Run] = {}
        self._heard = b""
        self._waiting: deque[bytes] = deque()
        """Requests that have come and have not been obeyed."""
        self._requests: dict[str, Callable[[Message], Message | None]] = {
            "make": self._make,
            "start": self._start,
            "execute": self._execute,
            "signal": self._signal,
            "signal_all": self._signal_all,
            "ping": lambda request: {},
            "remove": self._remove,
            "open": self._open,
            "usage": self._usage,
        }

    def run(self) -> None:
        """Serve until the parent closes its end."""
        self._poll.register(self._parent, select.EPOLLIN)
        while True:
            # One request at a time: what containers tell meanwhile is passed on, however many are waiting.
            for descriptor, _ in self._poll.poll(0 if self._waiting else None):
                if descriptor in self._runs:
                    self._hear_container(descriptor)
                elif not self._hear_parent():
                    return
            if self._waiting:
                self._obey(json.loads(self._waiting.popleft()))

    def _hear_parent(self) -> bool:
        try:
            heard = self._parent.recv(1 << 16)
        except ConnectionError:
            return False  # it was killed with words of ours unread
        *lines, self._heard = (self._heard + heard).split(b"\n")
        self._waiting.extend(lines)
        return bool(heard)

    def _obey(self, request: Message) -> None:
        try:
            answer = self._requests[request["do"]](request)
        except OSError as problem:
            answer = {"error": problem.strerror or str(problem)}
        if answer is not None:
            self._say({"answers": request["id"], **answer})

    def _say(self, message: Message) -> None:
        with suppress(ConnectionError):  # the parent has hung up, which is heard next
            self._parent.sendall(json.dumps(message).encode() + b"\n")

    def _make(self, request: Message) -> Message:
        wishes = {name: request[name] for name in ("own_network", "address")}
        sandbox = self._ground.make(request["pod"], request["hostname"], **wishes)
        self._pods[request["pod"]] = _Pod(sandbox)
        return {"address": sandbox.address}

    def _start(self, request: Message) -> Message | None:
        pod, name = self._pods.get(request["pod"]), request["run"]
        if pod is None or pod.removal is not None:
            return {"error": "the pod is being removed"}
        command = request["command"]
        command["cell"] = self._cells.make(f"{request['pod']}.{name}", command) if self._cells else ""
        process, reports = self._ground.start(command, pod.sandbox)
        program = Program(argv=[], env=command["env"], folder=command["folder"])
        run = _Run(request["pod"], name, process, request["id"], program)
        run.cell = command["cell"]
        self._note_run(run, reports)
        return None

    def _execute(self, request: Message) -> Message | None:
        streams = self._descriptors(request["id"])
        try:
            container = self._found(request["pod"], request["run"])
            if container is None or container.program is None or not container.is_started:
                return {"error": "the container does not run"}
            program = Program(**{**container.program, "argv": request["argv"]})
            has_terminal = request["terminal"]
            if has_terminal:
                program["env"] = {"TERM": "xterm", **program["env"]}
            process, reports = self._ground.join(program, container.process, streams, has_terminal=has_terminal)
        finally:
            for each in streams:
                os.close(each)
        container.sessions.append(request["session"])
        self._note_run(_Run(request["pod"], request["session"], process, request["id"]), reports)
        return None

    def _descriptors(self, number: int) -> list[int]:
        """What came along with a request; it was sent before the request was."""
        while number not in self._handed:
            told, descriptors, _, _ = socket.recv_fds(self._handover, 64, 3)
            self._handed[int(told)] = descriptors
        return self._handed.pop(number)

    def _note_run(self, run: _Run, reports: int) -> None:
        self._runs[reports] = run
        self._pods[run.pod].runs[run.name] = reports
        self._poll.register(reports, select.EPOLLIN)

    def _found(self, pod: str, name: str) -> _Run | None:
        held = self._pods.get(pod)
        reports = held.runs.get(name) if held else None
        return self._runs[reports] if reports is not None else None

    def _signal(self, request: Message) -> Message:
        run = self._found(request["pod"], request["run"])
        if run is not None:
            # Whoever watches over it then kills it with all that belongs to it, and tells the rest of its story.
            is_kill = request["signal"] == signal.SIGKILL and run.is_started
            os.kill(run.process, END_ALL if is_kill else request["signal"])
        return {}

    def _signal_all(self, request: Message) -> Message:
        pod = self._pods.get(request["pod"])
        for reports in pod.runs.values() if pod else ():
            if self._runs[reports].program is not None:
                self._ground.signal_all(self._runs[reports].process, request["signal"])
        return {}

    def _remove(self, request: Message) -> Message | None:
        pod = self._pods.get(request["pod"])
        if pod is None:
            return {}
        pod.removal = request["id"]
        for reports in pod.runs.values():
            self._ground.kill(self._runs[reports].process)
        self._release_if_empty(request["pod"])
        return None

    def _open(self, request: Message) -> Message:
        pod = self._pods.get(request["pod"])
        if request["pod"] and pod is None:
            raise OSError(0, "the pod is gone")
        standing = self._ground.standing(pod.sandbox if pod else None, outside=request["outside"])
        with standing, opened(request["kind"], request["address"], request["port"]) as sock:
            socket.send_fds(self._handover, [str(request["id"]).encode()], [sock.fileno()])
        return {}

    def _usage(self, request: Message) -> Message:
        """What every container and session uses."""
        seen = Processes(self._ground.processes())
        return {"usage": [[run.pod, run.name, *seen.below(run.process)] for run in self._runs.values()]}

    def _hear_container(self, reports: int) -> None:
        run = self._runs[reports]
        heard = os.read(reports, 4096)
        *lines, run.heard = (run.heard + heard).split(b"\n")
        for line in lines:
            self._note(run, json.loads(line))
        if not heard:
            self._reap(reports, run)

    def _note(self, run: _Run, words: Message) -> None:
        if "code" in words:
            run.ending = words["code"], words["signal"]
            run.is_outgrown = words.get("outgrown", False)
            return
        run.is_answered, run.is_started = True, "started" in words
        self._say({"answers": run.asked, **words})

    def _reap(self, reports: int, run: _Run) -> None:
        self._poll.unregister(reports)
        os.close(reports)
        del self._runs[reports]
        _, status = os.waitpid(run.process, 0)
        if self._cells and run.cell:
            self._cells.remove(run.cell)
        code, ended_by = run.ending or _told(status)
        if not run.is_answered:
            self._say({"answers": run.asked, "error": "its first process was killed"})
        elif run.is_started:
            told = {"code": code, "signal": ended_by, "outgrown": run.is_outgrown}
            self._say({"ended": run.name, "pod": run.pod, **told})
        del self._pods[run.pod].runs[run.name]
        for session in filter(None, (self._found(run.pod, name) for name in run.sessions)):
            self._ground.leave(session.process)
        self._ground.tidy({each.process for each in self._runs.values()})
        self._release_if_empty(run.pod)

    def _release_if_empty(self, name: str) -> None:
        pod = self._pods[name]
        if pod.removal is not None and not pod.runs:
            del self._pods[name]
            self._ground.release(pod.sandbox)
            self._say({"answers": pod.removal})


def _told(status: int) -> tuple[int, int]:
    code = os.waitstatus_to_exitcode(status)
    return (128 - code, -code) if code < 0 else (code, 0)
