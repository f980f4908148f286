"""Run a short command in a running container and hear what it says, within a time limit."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from pliant.embedded.kubelet.environment.variables import UnsupportedPodSpec
from pliant.embedded.kubelet.probes.grpc_health import GrpcHealthError, check_grpc_health
from pliant.embedded.kubelet.runtime.node_agent import AgentRequestFailed, ExecStreams, NodeAgent

_MAX_OUTPUT_BYTES = 10 << 10
"""So much of the output is kept."""


@dataclass(frozen=True, slots=True)
class ExecResult:
    """How a command ended: its exit code, or None when its time was up, and what it wrote."""

    exit_code: int | None
    output: str


async def run_command(
    agent: NodeAgent, container: tuple[str, str], argv: Sequence[str], *, timeout: float | None
) -> ExecResult:
    """The outcome of a command in the container of that pod and run; killed when its time is up.

    Raises `AgentRequestFailed` when it cannot be started. Whoever stops waiting has it killed, too.
    """
    reading, writing = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    nothing = os.open(os.devnull, os.O_RDONLY)
    heard = _OutputBuffer(reading)
    try:
        os.set_blocking(writing, True)
        session = await agent.start_session(
            *container, argv, ExecStreams(stdin=nothing, stdout=writing, stderr=writing)
        )
        try:
            # Not wait_for, which may forget that it was cancelled when the end comes at the same time.
            async with asyncio.timeout(timeout):
                ending = await asyncio.shield(session.exit_future)
        except BaseException as problem:
            session.send_signal(signal.SIGKILL)
            if not isinstance(problem, TimeoutError):
                raise
            return ExecResult(None, heard.text())
        return ExecResult(ending.code, heard.text())
    finally:
        os.close(writing)
        os.close(nothing)
        heard.close()


class _OutputBuffer:
    """Takes in what comes out of a pipe, so that the writer never waits."""

    def __init__(self, pipe_fd: int) -> None:
        self._pipe_fd = pipe_fd
        self._output = b""
        asyncio.get_running_loop().add_reader(pipe_fd, self._read)

    def text(self) -> str:
        """All that has been written, up to a limit."""
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


_HANDLER_TYPES = ("exec", "httpGet", "tcpSocket", "grpc", "sleep")


class ProbeResult(Enum):
    """What a check says; one that could not be made says nothing."""

    SUCCESS = "success"
    FAILURE = "failure"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class ProbeReport:
    """A result, and words for it."""

    result: ProbeResult
    message: str = ""


_SUCCESS = ProbeReport(ProbeResult.SUCCESS)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeTarget:
    """A container that runs, as checks reach it."""

    agent: NodeAgent
    pod_uid: str
    run_name: str
    address: str
    spec: Mapping[str, Any]


def validate_handlers(container: Mapping[str, Any]) -> None:
    """Raise `Unusable` when a container asks for checks that are not offered."""
    lifecycle = container.get("lifecycle") or {}
    for field, asked in (
        *((kind, container.get(kind)) for kind in ("startupProbe", "livenessProbe", "readinessProbe")),
        *((f"lifecycle.{kind}", lifecycle.get(kind)) for kind in ("postStart", "preStop")),
    ):
        if asked and not any(asked.get(way) for way in _HANDLER_TYPES):
            raise UnsupportedPodSpec(
                f"{field} of container {container['name']!r}: this is not offered, use exec or httpGet"
            )
        for way in ("httpGet", "tcpSocket"):
            if asked and asked.get(way):
                _resolve_port(asked[way], container)


async def run_handler(target: ProbeTarget, handler: Mapping[str, Any], timeout: float | None) -> ProbeReport:
    """What a container answers within so many seconds."""
    if command := (handler.get("exec") or {}).get("command"):
        return await _run_exec(target, command, timeout)
    if (pause := handler.get("sleep")) is not None:
        await asyncio.sleep(pause.get("seconds") or 0)
        return _SUCCESS
    if (request := handler.get("httpGet")) is not None:
        return await _probe_http(target, request, timeout)
    if (call := handler.get("grpc")) is not None:
        return await _probe_grpc(target, call, timeout)
    return await _probe_tcp(target, handler.get("tcpSocket") or {}, timeout)


async def _run_exec(target: ProbeTarget, command: Sequence[str], timeout: float | None) -> ProbeReport:
    try:
        outcome = await run_command(target.agent, (target.pod_uid, target.run_name), command, timeout=timeout)
    except AgentRequestFailed as problem:
        return ProbeReport(ProbeResult.UNKNOWN, str(problem))
    if outcome.exit_code is None:
        return ProbeReport(
            ProbeResult.FAILURE, f'command timed out: "{" ".join(command)}" timed out after {timeout:g}s'
        )
    return ProbeReport(ProbeResult.SUCCESS if outcome.exit_code == 0 else ProbeResult.FAILURE, outcome.output.strip())


async def _probe_tcp(target: ProbeTarget, handler: Mapping[str, Any], timeout: float | None) -> ProbeReport:
    address, port = handler.get("host") or target.address, _resolve_port(handler, target.spec)
    try:
        async with asyncio.timeout(timeout):
            (await target.agent.connect(address, port)).close()
    except TimeoutError:
        return ProbeReport(ProbeResult.FAILURE, f"dial tcp {address}:{port}: i/o timeout")
    except OSError as problem:
        return ProbeReport(ProbeResult.FAILURE, f"dial tcp {address}:{port}: connect: {_error_text(problem)}")
    return _SUCCESS


async def _probe_http(target: ProbeTarget, handler: Mapping[str, Any], timeout: float | None) -> ProbeReport:
    address, port = handler.get("host") or target.address, _resolve_port(handler, target.spec)
    scheme, path = str(handler.get("scheme") or "HTTP").lower(), "/" + str(handler.get("path") or "/").lstrip("/")
    url = f"{scheme}://{address}:{port}{path}"
    try:
        async with asyncio.timeout(timeout):
            code = await _http_status_code(target, handler, (address, port), path)
    except TimeoutError:
        waited = "context deadline exceeded (Client.Timeout exceeded while awaiting headers)"
        return ProbeReport(ProbeResult.FAILURE, f'Get "{url}": {waited}')
    except ssl.SSLError as problem:
        return ProbeReport(ProbeResult.FAILURE, f'Get "{url}": {problem.reason or problem}')
    except OSError as problem:
        return ProbeReport(
            ProbeResult.FAILURE, f'Get "{url}": dial tcp {address}:{port}: connect: {_error_text(problem)}'
        )
    except ValueError as problem:
        return ProbeReport(ProbeResult.FAILURE, f'Get "{url}": {problem}')
    if 200 <= code < 400:
        return _SUCCESS
    return ProbeReport(ProbeResult.FAILURE, f"HTTP probe failed with statuscode: {code}")


async def _probe_grpc(target: ProbeTarget, handler: Mapping[str, Any], timeout: float | None) -> ProbeReport:
    where = target.address, int(handler["port"])
    try:
        async with asyncio.timeout(timeout):
            reader, writer = await asyncio.open_connection(sock=await target.agent.connect(*where))
            try:
                authority = f"{where[0]}:{where[1]}"
                state = await check_grpc_health(reader, writer, authority, str(handler.get("service") or ""))
            finally:
                writer.transport.abort()
    except TimeoutError:
        return ProbeReport(ProbeResult.FAILURE, f"timeout: health rpc did not complete within {timeout:g}s")
    except OSError as problem:
        return ProbeReport(ProbeResult.FAILURE, f"dial tcp {where[0]}:{where[1]}: connect: {_error_text(problem)}")
    except GrpcHealthError as problem:
        return ProbeReport(ProbeResult.FAILURE, f"error: {problem}")
    if state == "SERVING":
        return _SUCCESS
    return ProbeReport(ProbeResult.FAILURE, f'service unhealthy (responded with "{state}")')


async def _http_status_code(
    target: ProbeTarget, handler: Mapping[str, Any], endpoint: tuple[str, int], path: str
) -> int:
    is_secure = str(handler.get("scheme") or "").upper() == "HTTPS"
    options: dict[str, Any] = {"ssl": _unverified_ssl_context(), "server_hostname": endpoint[0]} if is_secure else {}
    sock = await target.agent.connect(*endpoint)
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
    words = line.split()
    if len(words) < 2 or not words[0].startswith(b"HTTP/") or not words[1].isdigit():
        raise ValueError("EOF" if not line else f"malformed HTTP response {line[:40].decode(errors='replace')!r}")
    return int(words[1])


def _unverified_ssl_context() -> ssl.SSLContext:
    """Certificates are not verified, as in any cluster: pods mostly have their own."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def _resolve_port(handler: Mapping[str, Any], container: Mapping[str, Any]) -> int:
    wanted = handler.get("port")
    if isinstance(wanted, int):
        return wanted
    for each in container.get("ports") or ():
        if each.get("name") == wanted:
            return int(each["containerPort"])
    if isinstance(wanted, str) and wanted.isdigit():
        return int(wanted)
    raise UnsupportedPodSpec(f"container {container['name']!r} has no port named {wanted!r}: add it to its ports")


def _error_text(error: OSError) -> str:
    return os.strerror(error.errno).lower() if error.errno else str(error)
