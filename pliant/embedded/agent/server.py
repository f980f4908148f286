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

from pliant.embedded.agent.container.process import KILL_ALL_SIGNAL, Program
from pliant.embedded.agent.container.process_usage import ProcessTable
from pliant.embedded.agent.isolation.cgroups import CgroupManager
from pliant.embedded.agent.isolation.namespace_isolation import Isolation
from pliant.embedded.agent.network.sandbox import Sandbox

JsonMessage = dict[str, Any]


class _ShimProcess:
    """One container or session that was started and has not been reaped."""

    def __init__(self, pod: str, name: str, pid: int, request_id: int, program: Program | None = None) -> None:
        self.pod = pod
        self.name = name
        self.pid = pid
        self.request_id = request_id
        self.program = program
        """What a container runs; its sessions get the same variables and folder."""
        self.sessions: list[str] = []
        self.has_replied = False
        self.is_started = False
        self.buffer = b""
        self.exit: tuple[int, int] | None = None
        self.is_oom_killed = False
        self.cgroup = ""
        """The control group that keeps its limits, if one does."""


class _PodSandbox:
    """One sandbox, and the report pipe of each container in it that has not been reaped."""

    def __init__(self, sandbox: Sandbox) -> None:
        self.sandbox = sandbox
        self.report_fds: dict[str, int] = {}
        self.removal_request_id: int | None = None
        """The request to remove it, to be answered when the last container is gone."""


class AgentServer:
    """The agent's only loop: a socket to the parent, one for descriptors from it, a pipe from each container."""

    def __init__(
        self,
        kubelet_socket: socket.socket,
        descriptor_socket: socket.socket,
        isolation: Isolation,
        cgroups: CgroupManager | None,
    ) -> None:
        self._kubelet_socket = kubelet_socket
        self._descriptor_socket = descriptor_socket
        self._received_descriptors: dict[int, list[int]] = {}
        """Descriptors that have arrived before the request that they belong to."""
        self._isolation = isolation
        self._cgroups = cgroups
        self._poll = select.epoll()
        self._pods: dict[str, _PodSandbox] = {}
        self._shims: dict[int, _ShimProcess] = {}
        self._buffer = b""
        self._pending_requests: deque[bytes] = deque()
        """Requests that have come and have not been obeyed."""
        self._handlers: dict[str, Callable[[JsonMessage], JsonMessage | None]] = {
            "make": self._create_pod,
            "start": self._start_container,
            "execute": self._start_session,
            "signal": self._signal_run,
            "signal_all": self._signal_pod,
            "ping": lambda request: {},
            "remove": self._remove_pod,
            "open": self._open_pod_socket,
            "usage": self._measure_usage,
        }

    def serve(self) -> None:
        """Serve until the parent closes its end."""
        self._poll.register(self._kubelet_socket, select.EPOLLIN)
        while True:
            # One request at a time: what containers tell meanwhile is passed on, however many are waiting.
            for descriptor, _ in self._poll.poll(0 if self._pending_requests else None):
                if descriptor in self._shims:
                    self._read_report(descriptor)
                elif not self._receive_requests():
                    return
            if self._pending_requests:
                self._handle_request(json.loads(self._pending_requests.popleft()))

    def _receive_requests(self) -> bool:
        try:
            heard = self._kubelet_socket.recv(1 << 16)
        except ConnectionError:
            return False  # it was killed with words of ours unread
        *lines, self._buffer = (self._buffer + heard).split(b"\n")
        self._pending_requests.extend(lines)
        return bool(heard)

    def _handle_request(self, request: JsonMessage) -> None:
        try:
            answer = self._handlers[request["do"]](request)
        except OSError as problem:
            answer = {"error": problem.strerror or str(problem)}
        if answer is not None:
            self._send_message({"answers": request["id"], **answer})

    def _send_message(self, message: JsonMessage) -> None:
        with suppress(ConnectionError):  # the parent has hung up, which is heard next
            self._kubelet_socket.sendall(json.dumps(message).encode() + b"\n")

    def _create_pod(self, request: JsonMessage) -> JsonMessage:
        wishes = {name: request[name] for name in ("own_network", "address")}
        sandbox = self._isolation.create_sandbox(request["pod"], request["hostname"], **wishes)
        self._pods[request["pod"]] = _PodSandbox(sandbox)
        return {"address": sandbox.address}

    def _start_container(self, request: JsonMessage) -> JsonMessage | None:
        pod, name = self._pods.get(request["pod"]), request["run"]
        if pod is None or pod.removal_request_id is not None:
            return {"error": "the pod is being removed"}
        command = request["command"]
        command["cell"] = self._cgroups.create_cgroup(f"{request['pod']}.{name}", command) if self._cgroups else ""
        process, reports = self._isolation.start_container(command, pod.sandbox)
        program = Program(argv=[], env=command["env"], folder=command["folder"])
        run = _ShimProcess(request["pod"], name, process, request["id"], program)
        run.cgroup = command["cell"]
        self._register_shim(run, reports)
        return None

    def _start_session(self, request: JsonMessage) -> JsonMessage | None:
        streams = self._receive_descriptors(request["id"])
        try:
            container = self._find_shim(request["pod"], request["run"])
            if container is None or container.program is None or not container.is_started:
                return {"error": "the container does not run"}
            program = Program(**{**container.program, "argv": request["argv"]})
            has_terminal = request["terminal"]
            if has_terminal:
                program["env"] = {"TERM": "xterm", **program["env"]}
            process, reports = self._isolation.start_session(program, container.pid, streams, has_terminal=has_terminal)
        finally:
            for each in streams:
                os.close(each)
        container.sessions.append(request["session"])
        self._register_shim(_ShimProcess(request["pod"], request["session"], process, request["id"]), reports)
        return None

    def _receive_descriptors(self, request_id: int) -> list[int]:
        """What came along with a request; it was sent before the request was."""
        while request_id not in self._received_descriptors:
            told, descriptors, _, _ = socket.recv_fds(self._descriptor_socket, 64, 3)
            self._received_descriptors[int(told)] = descriptors
        return self._received_descriptors.pop(request_id)

    def _register_shim(self, shim: _ShimProcess, report_fd: int) -> None:
        self._shims[report_fd] = shim
        self._pods[shim.pod].report_fds[shim.name] = report_fd
        self._poll.register(report_fd, select.EPOLLIN)

    def _find_shim(self, pod_uid: str, run_name: str) -> _ShimProcess | None:
        held = self._pods.get(pod_uid)
        reports = held.report_fds.get(run_name) if held else None
        return self._shims[reports] if reports is not None else None

    def _signal_run(self, request: JsonMessage) -> JsonMessage:
        run = self._find_shim(request["pod"], request["run"])
        if run is not None:
            # Whoever watches over it then kills it with all that belongs to it, and tells the rest of its story.
            is_kill = request["signal"] == signal.SIGKILL and run.is_started
            os.kill(run.pid, KILL_ALL_SIGNAL if is_kill else request["signal"])
        return {}

    def _signal_pod(self, request: JsonMessage) -> JsonMessage:
        pod = self._pods.get(request["pod"])
        for reports in pod.report_fds.values() if pod else ():
            if self._shims[reports].program is not None:
                self._isolation.signal_container(self._shims[reports].pid, request["signal"])
        return {}

    def _remove_pod(self, request: JsonMessage) -> JsonMessage | None:
        pod = self._pods.get(request["pod"])
        if pod is None:
            return {}
        pod.removal_request_id = request["id"]
        for reports in pod.report_fds.values():
            self._isolation.kill_shim(self._shims[reports].pid)
        self._remove_pod_if_empty(request["pod"])
        return None

    def _open_pod_socket(self, request: JsonMessage) -> JsonMessage:
        pod = self._pods.get(request["pod"])
        if request["pod"] and pod is None:
            raise OSError(0, "the pod is gone")
        standing = self._isolation.enter_network(pod.sandbox if pod else None, in_egress=request["outside"])
        with standing, _open_socket(request["kind"], request["address"], request["port"]) as sock:
            socket.send_fds(self._descriptor_socket, [str(request["id"]).encode()], [sock.fileno()])
        return {}

    def _measure_usage(self, request: JsonMessage) -> JsonMessage:
        """What every container and session uses."""
        seen = ProcessTable(self._isolation.proc_dir())
        return {"usage": [[run.pod, run.name, *seen.usage_of_descendants(run.pid)] for run in self._shims.values()]}

    def _read_report(self, report_fd: int) -> None:
        run = self._shims[report_fd]
        heard = os.read(report_fd, 4096)
        *lines, run.buffer = (run.buffer + heard).split(b"\n")
        for line in lines:
            self._handle_report(run, json.loads(line))
        if not heard:
            self._reap_shim(report_fd, run)

    def _handle_report(self, shim: _ShimProcess, report: JsonMessage) -> None:
        if "code" in report:
            shim.exit = report["code"], report["signal"]
            shim.is_oom_killed = report.get("outgrown", False)
            return
        shim.has_replied, shim.is_started = True, "started" in report
        self._send_message({"answers": shim.request_id, **report})

    def _reap_shim(self, report_fd: int, shim: _ShimProcess) -> None:
        self._poll.unregister(report_fd)
        os.close(report_fd)
        del self._shims[report_fd]
        _, status = os.waitpid(shim.pid, 0)
        if self._cgroups and shim.cgroup:
            self._cgroups.remove_cgroup(shim.cgroup)
        code, ended_by = shim.exit or _exit_from_wait_status(status)
        if not shim.has_replied:
            self._send_message({"answers": shim.request_id, "error": "its first process was killed"})
        elif shim.is_started:
            told = {"code": code, "signal": ended_by, "outgrown": shim.is_oom_killed}
            self._send_message({"ended": shim.name, "pod": shim.pod, **told})
        del self._pods[shim.pod].report_fds[shim.name]
        for session in filter(None, (self._find_shim(shim.pod, name) for name in shim.sessions)):
            self._isolation.end_session(session.pid)
        self._isolation.kill_leftovers({each.pid for each in self._shims.values()})
        self._remove_pod_if_empty(shim.pod)

    def _remove_pod_if_empty(self, pod_uid: str) -> None:
        pod = self._pods[pod_uid]
        if pod.removal_request_id is not None and not pod.report_fds:
            del self._pods[pod_uid]
            self._isolation.remove_sandbox(pod.sandbox)
            self._send_message({"answers": pod.removal_request_id})


def _exit_from_wait_status(wait_status: int) -> tuple[int, int]:
    code = os.waitstatus_to_exitcode(wait_status)
    return (128 - code, -code) if code < 0 else (code, 0)


_SOCKET_TYPES = {"stream": socket.SOCK_STREAM, "datagram": socket.SOCK_DGRAM}
_LISTEN_BACKLOG = 1024


def _open_socket(socket_type: str, address: str, port: int) -> socket.socket:
    """A socket of this network: bound, and listening if it can, where an address is given."""
    sock = socket.socket(socket.AF_INET, _SOCKET_TYPES[socket_type])
    try:
        if address:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind((address, port))
            if socket_type == "stream":
                sock.listen(_LISTEN_BACKLOG)
    except OSError:
        sock.close()
        raise
    return sock
