"""Run the handlers of probes and lifecycle hooks: exec, httpGet, tcpSocket, grpc and sleep."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from pliant.embedded.kubelet.environment.variables import UnsupportedPodSpec
from pliant.embedded.kubelet.probes.grpc_health import GrpcHealthError, fetch_serving_status
from pliant.embedded.kubelet.runtime.messages import AgentRequestFailed, ExecStreams
from pliant.embedded.kubelet.runtime.node_agent import NodeAgentClient

_MAX_OUTPUT_BYTES = 10 << 10
HandlerSpec = Mapping[str, Any]
_HANDLER_TYPES = ("exec", "httpGet", "tcpSocket", "grpc", "sleep")


@dataclass(frozen=True, slots=True)
class ExecResult:
    """The exit code of a command, None after a timeout, and its output."""

    exit_code: int | None
    output: str


async def run_container_command(
    agent: NodeAgentClient, pod_and_run_name: tuple[str, str], argv: Sequence[str], *, timeout: float | None
) -> ExecResult:
    """Run a command in a container, given by pod uid and run name; kill it after the timeout or on cancellation.

    Raises `AgentRequestFailed` if the command cannot be started.
    """
    output_pipe, output_fd = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    null_fd = os.open(os.devnull, os.O_RDONLY)
    output = _OutputBuffer(output_pipe)
    try:
        os.set_blocking(output_fd, True)
        streams = ExecStreams(stdin=null_fd, stdout=output_fd, stderr=output_fd)
        session = await agent.start_session(*pod_and_run_name, argv, streams)
        try:
            # wait_for may swallow a cancellation that coincides with the exit.
            async with asyncio.timeout(timeout):
                exit_status = await asyncio.shield(session.exit_future)
        except BaseException as error:
            session.send_signal(signal.SIGKILL)
            if not isinstance(error, TimeoutError):
                raise
            return ExecResult(None, output.text())
        return ExecResult(exit_status.code, output.text())
    finally:
        os.close(output_fd)
        os.close(null_fd)
        output.close()


class _OutputBuffer:
    """Reads a pipe into memory, so that its writer never blocks."""

    def __init__(self, pipe_fd: int) -> None:
        self._pipe_fd = pipe_fd
        self._output = b""
        asyncio.get_running_loop().add_reader(pipe_fd, self._read)

    def text(self) -> str:
        self._read()
        return self._output.decode(errors="replace")

    def close(self) -> None:
        asyncio.get_running_loop().remove_reader(self._pipe_fd)
        os.close(self._pipe_fd)

    def _read(self) -> None:
        try:
            while chunk := os.read(self._pipe_fd, 1 << 16):
                self._output = (self._output + chunk)[:_MAX_OUTPUT_BYTES]
        except BlockingIOError:
            return
        asyncio.get_running_loop().remove_reader(self._pipe_fd)


class ProbeResult(Enum):
    """The result of a handler; UNKNOWN if it could not be run."""

    SUCCESS = "success"
    FAILURE = "failure"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class ProbeReport:
    result: ProbeResult
    message: str = ""


_SUCCESS = ProbeReport(ProbeResult.SUCCESS)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeTarget:
    """A running container, for handlers."""

    agent: NodeAgentClient
    pod_uid: str
    run_name: str
    address: str
    spec: Mapping[str, Any]


def validate_handlers(container: Mapping[str, Any]) -> None:
    """Raise UnsupportedPodSpec if a probe or lifecycle hook of a container has no supported handler."""
    lifecycle = container.get("lifecycle") or {}
    for field, handler in (
        *((kind, container.get(kind)) for kind in ("startupProbe", "livenessProbe", "readinessProbe")),
        *((f"lifecycle.{kind}", lifecycle.get(kind)) for kind in ("postStart", "preStop")),
    ):
        if not handler:
            continue
        if not any(handler.get(handler_type) for handler_type in _HANDLER_TYPES):
            supported = ", ".join(_HANDLER_TYPES)
            raise UnsupportedPodSpec(f"{field} of container {container['name']!r}: use one of {supported}")
        for handler_type in ("httpGet", "tcpSocket"):
            if handler.get(handler_type):
                _resolve_port(handler[handler_type], container)


async def run_probe_or_hook(target: ProbeTarget, handler: HandlerSpec, timeout: float | None) -> ProbeReport:
    """Run the handler of a probe or lifecycle hook."""
    if command := (handler.get("exec") or {}).get("command"):
        return await _run_exec(target, command, timeout)
    if (sleep := handler.get("sleep")) is not None:
        await asyncio.sleep(sleep.get("seconds") or 0)
        return _SUCCESS
    if (request := handler.get("httpGet")) is not None:
        return await _probe_http(target, request, timeout)
    if (call := handler.get("grpc")) is not None:
        return await _probe_grpc(target, call, timeout)
    return await _probe_tcp(target, handler.get("tcpSocket") or {}, timeout)


async def _run_exec(target: ProbeTarget, command: Sequence[str], timeout: float | None) -> ProbeReport:
    try:
        result = await run_container_command(target.agent, (target.pod_uid, target.run_name), command, timeout=timeout)
    except AgentRequestFailed as error:
        return ProbeReport(ProbeResult.UNKNOWN, str(error))
    if result.exit_code is None:
        return _failure(f'command timed out: "{" ".join(command)}" timed out after {timeout:g}s')
    return ProbeReport(ProbeResult.SUCCESS if result.exit_code == 0 else ProbeResult.FAILURE, result.output.strip())


async def _probe_tcp(target: ProbeTarget, handler: HandlerSpec, timeout: float | None) -> ProbeReport:
    address, port = handler.get("host") or target.address, _resolve_port(handler, target.spec)
    try:
        async with asyncio.timeout(None) as deadline:
            (await _connect(target, (address, port), deadline, timeout)).close()
    except TimeoutError:
        return _failure(f"dial tcp {address}:{port}: i/o timeout")
    except OSError as error:
        return _failure(_dial_error(address, port, error))
    return _SUCCESS


async def _probe_http(target: ProbeTarget, handler: HandlerSpec, timeout: float | None) -> ProbeReport:
    address, port = handler.get("host") or target.address, _resolve_port(handler, target.spec)
    scheme, path = str(handler.get("scheme") or "HTTP").lower(), "/" + str(handler.get("path") or "/").lstrip("/")
    url = f"{scheme}://{address}:{port}{path}"
    try:
        async with asyncio.timeout(None) as deadline:
            sock = await _connect(target, (address, port), deadline, timeout)
            code = await _http_status_code(sock, handler, (address, port), path)
    except TimeoutError:
        timeout_message = "context deadline exceeded (Client.Timeout exceeded while awaiting headers)"
        return _failure(f'Get "{url}": {timeout_message}')
    except ssl.SSLError as error:
        return _failure(f'Get "{url}": {error.reason or error}')
    except OSError as error:
        return _failure(f'Get "{url}": {_dial_error(address, port, error)}')
    except ValueError as error:
        return _failure(f'Get "{url}": {error}')
    return _SUCCESS if 200 <= code < 400 else _failure(f"HTTP probe failed with statuscode: {code}")


async def _probe_grpc(target: ProbeTarget, handler: HandlerSpec, timeout: float | None) -> ProbeReport:
    address, port, service = target.address, int(handler["port"]), str(handler.get("service") or "")
    try:
        async with asyncio.timeout(None) as deadline:
            sock = await _connect(target, (address, port), deadline, timeout)
            reader, writer = await asyncio.open_connection(sock=sock)
            try:
                status = await fetch_serving_status(reader, writer, f"{address}:{port}", service)
            finally:
                writer.transport.abort()
    except TimeoutError:
        return _failure(f"timeout: health rpc did not complete within {timeout:g}s")
    except OSError as error:
        return _failure(_dial_error(address, port, error))
    except GrpcHealthError as error:
        return _failure(f"error: {error}")
    return _SUCCESS if status == "SERVING" else _failure(f'service unhealthy (responded with "{status}")')


async def _connect(
    target: ProbeTarget, endpoint: tuple[str, int], deadline: asyncio.Timeout, timeout: float | None
) -> socket.socket:
    """Connect to a pod; the timeout begins when the agent has opened the socket, since it may be stopped."""
    loop, sock = asyncio.get_running_loop(), await target.agent.open_socket("stream")
    if timeout is not None:
        deadline.reschedule(loop.time() + timeout)
    try:
        await loop.sock_connect(sock, endpoint)
    except BaseException:
        sock.close()
        raise
    return sock


async def _http_status_code(sock: socket.socket, handler: HandlerSpec, endpoint: tuple[str, int], path: str) -> int:
    is_secure = str(handler.get("scheme") or "").upper() == "HTTPS"
    options: dict[str, Any] = {"ssl": _unverified_ssl_context(), "server_hostname": endpoint[0]} if is_secure else {}
    reader, writer = await asyncio.open_connection(sock=sock, **options)
    try:
        headers = {"Host": f"{endpoint[0]}:{endpoint[1]}", "User-Agent": "kube-probe/pliant", "Accept": "*/*"}
        headers |= {each["name"]: each["value"] for each in handler.get("httpHeaders") or ()}
        lines = [f"GET {path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
        writer.write("\r\n".join([*lines, "Connection: close", "", ""]).encode())
        return _parse_status_line(await reader.readline())
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


def _parse_status_line(line: bytes) -> int:
    fields = line.split()
    if len(fields) < 2 or not fields[0].startswith(b"HTTP/") or not fields[1].isdigit():
        raise ValueError("EOF" if not line else f"malformed HTTP response {line[:40].decode(errors='replace')!r}")
    return int(fields[1])


def _unverified_ssl_context() -> ssl.SSLContext:
    # As in Kubernetes, probes do not verify certificates.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def _resolve_port(handler: HandlerSpec, container: Mapping[str, Any]) -> int:
    port = handler.get("port")
    if isinstance(port, int):
        return port
    for container_port in container.get("ports") or ():
        if container_port.get("name") == port:
            return int(container_port["containerPort"])
    if isinstance(port, str) and port.isdigit():
        return int(port)
    raise UnsupportedPodSpec(f"container {container['name']!r} has no port named {port!r}: add it to its ports")


def _failure(message: str) -> ProbeReport:
    return ProbeReport(ProbeResult.FAILURE, message)


def _dial_error(address: str, port: int, error: OSError) -> str:
    text = os.strerror(error.errno).lower() if error.errno else str(error)
    return f"dial tcp {address}:{port}: connect: {text}"
