"""The server of the node agent: runs the kubelet's requests and reports the exits of containers and sessions.

Requests and messages are JSON objects, one per line. A request is `{"id": N, "operation": NAME, …}`; its reply is
`{"reply_to": N, …}`, with `error` if it failed. `{"exited_run": NAME, "pod": UID, "code": …, "signal": …,
"oom_killed": …}` reports the exit of a container or session.
"""

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

from pliant.embedded.agent.container.config import Program
from pliant.embedded.agent.container.process import KILL_ALL_SIGNAL, decode_wait_status
from pliant.embedded.agent.container.process_usage import ProcessTable
from pliant.embedded.agent.isolation.cgroups import CgroupManager
from pliant.embedded.agent.isolation.host_isolation import HostIsolation
from pliant.embedded.agent.isolation.namespace_isolation import NamespaceIsolation
from pliant.embedded.agent.network.sandbox import Sandbox

JsonMessage = dict[str, Any]
Isolation = NamespaceIsolation | HostIsolation
KubeletSockets = tuple[socket.socket, socket.socket]
"""The socket for messages, and the socket for descriptors."""

_SOCKET_TYPES = {"stream": socket.SOCK_STREAM, "datagram": socket.SOCK_DGRAM}
_LISTEN_BACKLOG = 1024


class _ShimProcess:
    """The shim of one container or session that has not been reaped."""

    def __init__(self, pod_uid: str, name: str, pid: int, request_id: int, program: Program | None = None) -> None:
        self.pod_uid = pod_uid
        self.name = name
        self.pid = pid
        self.pid_namespace_pid = pid
        """The first process of the PID namespace, which is another shim for an ephemeral container with a target."""
        self.request_id = request_id
        self.program = program
        """The program of a container; None for a session."""
        self.sessions: list[str] = []
        self.has_replied = False
        self.is_started = False
        self.buffer = b""
        self.exit: tuple[int, int] | None = None
        self.is_oom_killed = False
        self.cgroup = ""


class _PodSandbox:
    """A sandbox and the report pipe of each shim in it, by run name."""

    def __init__(self, sandbox: Sandbox) -> None:
        self.sandbox = sandbox
        self.report_fds: dict[str, int] = {}
        self.removal_request_id: int | None = None
        """The request to remove the pod; it is answered when the last shim is reaped."""


class AgentServer:
    """The event loop of the agent: the kubelet's socket and the report pipe of each shim."""

    def __init__(self, sockets: KubeletSockets, isolation: Isolation, cgroups: CgroupManager | None) -> None:
        self._kubelet_socket, self._descriptor_socket = sockets
        self._received_descriptors: dict[int, list[int]] = {}
        """Descriptors that arrived before their request, by request id."""
        self._isolation = isolation
        self._cgroups = cgroups
        self._poll = select.epoll()
        self._pods: dict[str, _PodSandbox] = {}
        self._shims: dict[int, _ShimProcess] = {}
        """Shims by report pipe."""
        self._buffer = b""
        self._pending_requests: deque[bytes] = deque()
        self._handlers: dict[str, Callable[[JsonMessage], JsonMessage | None]] = {
            "create_pod": self._create_pod,
            "start_container": self._start_container,
            "start_session": self._start_session,
            "signal_run": self._signal_run,
            "signal_pod": self._signal_pod,
            "ping": lambda request: {},
            "remove_pod": self._remove_pod,
            "open_socket": self._open_pod_socket,
            "measure_usage": self._measure_usage,
        }

    def serve(self) -> None:
        """Serve until the kubelet closes its socket."""
        self._poll.register(self._kubelet_socket, select.EPOLLIN)
        while True:
            # One request per round: a long queue of requests does not delay reports.
            for fd, _ in self._poll.poll(0 if self._pending_requests else None):
                if fd in self._shims:
                    self._read_report(fd)
                elif not self._receive_requests():
                    return
            if self._pending_requests:
                self._handle_request(json.loads(self._pending_requests.popleft()))

    def _receive_requests(self) -> bool:
        try:
            data = self._kubelet_socket.recv(1 << 16)
        except ConnectionError:
            return False  # The kubelet was killed before it read all messages.
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        self._pending_requests.extend(lines)
        return bool(data)

    def _handle_request(self, request: JsonMessage) -> None:
        try:
            reply = self._handlers[request["operation"]](request)
        except OSError as error:
            reply = {"error": error.strerror or str(error)}
        if reply is not None:
            self._send_message({"reply_to": request["id"], **reply})

    def _send_message(self, message: JsonMessage) -> None:
        with suppress(ConnectionError):  # The next recv detects the closed socket.
            self._kubelet_socket.sendall(json.dumps(message).encode() + b"\n")

    def _create_pod(self, request: JsonMessage) -> JsonMessage:
        options = {name: request[name] for name in ("own_network", "address")}
        sandbox = self._isolation.create_sandbox(request["pod"], request["hostname"], **options)
        self._pods[request["pod"]] = _PodSandbox(sandbox)
        return {"address": sandbox.address}

    def _start_container(self, request: JsonMessage) -> JsonMessage | None:
        pod_uid, name, config = request["pod"], request["run_name"], request["config"]
        pod = self._pods.get(pod_uid)
        if pod is None or pod.removal_request_id is not None:
            return {"error": "the pod is being removed"}
        target = self._find_shim(pod_uid, config["target_run"]) if config.get("target_run") else None
        if config.get("target_run") and (target is None or not target.is_started):
            return {"error": "the target container is not running"}
        config["cgroup"] = self._cgroups.create_cgroup(f"{pod_uid}.{name}", config) if self._cgroups else ""
        target_pid = target.pid_namespace_pid if target is not None else None
        pid, report_fd = self._isolation.start_container(config, pod.sandbox, target_pid)
        program = Program(argv=[], env=config["env"], working_dir=config["working_dir"])
        shim = _ShimProcess(pod_uid, name, pid, request["id"], program)
        shim.cgroup = config["cgroup"]
        shim.pid_namespace_pid = target_pid or pid
        self._register_shim(shim, report_fd)
        return None

    def _start_session(self, request: JsonMessage) -> JsonMessage | None:
        streams = self._receive_descriptors(request["id"])
        try:
            container = self._find_shim(request["pod"], request["run_name"])
            if container is None or container.program is None or not container.is_started:
                return {"error": "the container is not running"}
            program = Program(**{**container.program, "argv": request["argv"]})
            has_terminal = request["tty"]
            if has_terminal:
                program["env"] = {"TERM": "xterm", **program["env"]}
            pids = container.pid, container.pid_namespace_pid
            pid, report_fd = self._isolation.start_session(program, pids, streams, has_terminal=has_terminal)
        finally:
            for fd in streams:
                os.close(fd)
        container.sessions.append(request["session_name"])
        self._register_shim(_ShimProcess(request["pod"], request["session_name"], pid, request["id"]), report_fd)
        return None

    def _receive_descriptors(self, request_id: int) -> list[int]:
        """Return the descriptors of a request; the kubelet sends them before the request."""
        while request_id not in self._received_descriptors:
            data, descriptors, _, _ = socket.recv_fds(self._descriptor_socket, 64, 3)
            self._received_descriptors[int(data)] = descriptors
        return self._received_descriptors.pop(request_id)

    def _register_shim(self, shim: _ShimProcess, report_fd: int) -> None:
        self._shims[report_fd] = shim
        self._pods[shim.pod_uid].report_fds[shim.name] = report_fd
        self._poll.register(report_fd, select.EPOLLIN)

    def _find_shim(self, pod_uid: str, run_name: str) -> _ShimProcess | None:
        pod = self._pods.get(pod_uid)
        report_fd = pod.report_fds.get(run_name) if pod else None
        return self._shims[report_fd] if report_fd is not None else None

    def _signal_run(self, request: JsonMessage) -> JsonMessage:
        shim = self._find_shim(request["pod"], request["run_name"])
        if shim is not None:
            # On KILL_ALL_SIGNAL, the shim kills every process of the run and still reports the exit.
            is_kill = request["signal"] == signal.SIGKILL and shim.is_started
            os.kill(shim.pid, KILL_ALL_SIGNAL if is_kill else request["signal"])
        return {}

    def _signal_pod(self, request: JsonMessage) -> JsonMessage:
        pod = self._pods.get(request["pod"])
        for report_fd in pod.report_fds.values() if pod else ():
            shim = self._shims[report_fd]
            if shim.program is not None and shim.pid == shim.pid_namespace_pid:
                self._isolation.signal_container(shim.pid, request["signal"])
        return {}

    def _remove_pod(self, request: JsonMessage) -> JsonMessage | None:
        pod = self._pods.get(request["pod"])
        if pod is None:
            return {}
        pod.removal_request_id = request["id"]
        for report_fd in pod.report_fds.values():
            self._isolation.kill_run_by_shim(self._shims[report_fd].pid)
        self._remove_pod_if_empty(request["pod"])
        return None

    def _open_pod_socket(self, request: JsonMessage) -> JsonMessage:
        pod = self._pods.get(request["pod"])
        if request["pod"] and pod is None:
            raise OSError(0, "the pod is gone")
        network = self._isolation.enter_network(pod.sandbox if pod else None, in_egress=request["in_egress"])
        with network, _open_socket(request["socket_type"], request["address"], request["port"]) as sock:
            socket.send_fds(self._descriptor_socket, [str(request["id"]).encode()], [sock.fileno()])
        return {}

    def _measure_usage(self, request: JsonMessage) -> JsonMessage:
        processes = ProcessTable(self._isolation.ensure_pods_proc_dir())
        shims = self._shims.values()
        return {"usage": [[shim.pod_uid, shim.name, *processes.descendants_cpu_and_memory(shim.pid)] for shim in shims]}

    def _read_report(self, report_fd: int) -> None:
        shim = self._shims[report_fd]
        data = os.read(report_fd, 4096)
        *lines, shim.buffer = (shim.buffer + data).split(b"\n")
        for line in lines:
            self._handle_report(shim, json.loads(line))
        if not data:
            self._reap_shim(report_fd, shim)

    def _handle_report(self, shim: _ShimProcess, report: JsonMessage) -> None:
        if "code" in report:
            shim.exit = report["code"], report["signal"]
            shim.is_oom_killed = report.get("oom_killed", False)
            return
        shim.has_replied, shim.is_started = True, "started" in report
        self._send_message({"reply_to": shim.request_id, **report})

    def _reap_shim(self, report_fd: int, shim: _ShimProcess) -> None:
        self._poll.unregister(report_fd)
        os.close(report_fd)
        del self._shims[report_fd]
        _, status = os.waitpid(shim.pid, 0)
        if self._cgroups and shim.cgroup:
            self._cgroups.remove_cgroup(shim.cgroup)
        code, signal_number = shim.exit or decode_wait_status(status)
        if not shim.has_replied:
            self._send_message({"reply_to": shim.request_id, "error": "the container shim was killed"})
        elif shim.is_started:
            exit_status = {"code": code, "signal": signal_number, "oom_killed": shim.is_oom_killed}
            self._send_message({"exited_run": shim.name, "pod": shim.pod_uid, **exit_status})
        del self._pods[shim.pod_uid].report_fds[shim.name]
        for session in filter(None, (self._find_shim(shim.pod_uid, name) for name in shim.sessions)):
            self._isolation.kill_orphaned_session(session.pid)
        self._isolation.kill_unknown_children({each.pid for each in self._shims.values()})
        self._remove_pod_if_empty(shim.pod_uid)

    def _remove_pod_if_empty(self, pod_uid: str) -> None:
        pod = self._pods[pod_uid]
        if pod.removal_request_id is not None and not pod.report_fds:
            del self._pods[pod_uid]
            self._isolation.remove_sandbox(pod.sandbox)
            self._send_message({"reply_to": pod.removal_request_id})


def _open_socket(socket_type: str, address: str, port: int) -> socket.socket:
    """Open a socket in the current network namespace; bind it, and listen, if an address is given."""
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
