"""Ask a running container how it is: by a command, an HTTP request or a connection, as probes and hooks do."""

from __future__ import annotations

import asyncio
import contextlib
import os
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from pliant.embedded.node.environment import Unusable
from pliant.embedded.node.execution import executed
from pliant.embedded.node.grpchealth import NoHealth, health
from pliant.embedded.node.link import NodeAgent, StartFailed

_WAYS = ("exec", "httpGet", "tcpSocket", "grpc", "sleep")


class Result(Enum):
    """What a check says; one that could not be made says nothing."""

    GOOD = "success"
    BAD = "failure"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Answer:
    """A result, and words for it."""

    result: Result
    message: str = ""


_GOOD = Answer(Result.GOOD)


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A container that runs, as checks reach it."""

    agent: NodeAgent
    pod: str
    run: str
    address: str
    spec: Mapping[str, Any]


def require_ways(container: Mapping[str, Any]) -> None:
    """Raise `Unusable` when a container asks for checks that are not offered."""
    lifecycle = container.get("lifecycle") or {}
    for field, asked in (
        *((kind, container.get(kind)) for kind in ("startupProbe", "livenessProbe", "readinessProbe")),
        *((f"lifecycle.{kind}", lifecycle.get(kind)) for kind in ("postStart", "preStop")),
    ):
        if asked and not any(asked.get(way) for way in _WAYS):
            raise Unusable(f"{field} of container {container['name']!r}: this is not offered, use exec or httpGet")
        for way in ("httpGet", "tcpSocket"):
            if asked and asked.get(way):
                _port(asked[way], container)


async def check(target: Target, asked: Mapping[str, Any], within: float | None) -> Answer:
    """What a container answers within so many seconds."""
    if command := (asked.get("exec") or {}).get("command"):
        return await _execute(target, command, within)
    if (pause := asked.get("sleep")) is not None:
        await asyncio.sleep(pause.get("seconds") or 0)
        return _GOOD
    if (request := asked.get("httpGet")) is not None:
        return await _fetch(target, request, within)
    if (call := asked.get("grpc")) is not None:
        return await _call(target, call, within)
    return await _connect(target, asked.get("tcpSocket") or {}, within)


async def _execute(target: Target, command: Sequence[str], within: float | None) -> Answer:
    try:
        outcome = await executed(target.agent, (target.pod, target.run), command, within=within)
    except StartFailed as problem:
        return Answer(Result.UNKNOWN, str(problem))
    if outcome.code is None:
        return Answer(Result.BAD, f'command timed out: "{" ".join(command)}" timed out after {within:g}s')
    return Answer(Result.GOOD if outcome.code == 0 else Result.BAD, outcome.output.strip())


async def _connect(target: Target, asked: Mapping[str, Any], within: float | None) -> Answer:
    address, port = asked.get("host") or target.address, _port(asked, target.spec)
    try:
        async with asyncio.timeout(within):
            (await target.agent.connected(address, port)).close()
    except TimeoutError:
        return Answer(Result.BAD, f"dial tcp {address}:{port}: i/o timeout")
    except OSError as problem:
        return Answer(Result.BAD, f"dial tcp {address}:{port}: connect: {_words(problem)}")
    return _GOOD


async def _fetch(target: Target, asked: Mapping[str, Any], within: float | None) -> Answer:
    address, port = asked.get("host") or target.address, _port(asked, target.spec)
    scheme, path = str(asked.get("scheme") or "HTTP").lower(), "/" + str(asked.get("path") or "/").lstrip("/")
    url = f"{scheme}://{address}:{port}{path}"
    try:
        async with asyncio.timeout(within):
            code = await _status_code(target, asked, (address, port), path)
    except TimeoutError:
        waited = "context deadline exceeded (Client.Timeout exceeded while awaiting headers)"
        return Answer(Result.BAD, f'Get "{url}": {waited}')
    except ssl.SSLError as problem:
        return Answer(Result.BAD, f'Get "{url}": {problem.reason or problem}')
    except OSError as problem:
        return Answer(Result.BAD, f'Get "{url}": dial tcp {address}:{port}: connect: {_words(problem)}')
    except ValueError as problem:
        return Answer(Result.BAD, f'Get "{url}": {problem}')
    if 200 <= code < 400:
        return _GOOD
    return Answer(Result.BAD, f"HTTP probe failed with statuscode: {code}")


async def _call(target: Target, asked: Mapping[str, Any], within: float | None) -> Answer:
    where = target.address, int(asked["port"])
    try:
        async with asyncio.timeout(within):
            reader, writer = await asyncio.open_connection(sock=await target.agent.connected(*where))
            try:
                authority = f"{where[0]}:{where[1]}"
                state = await health(reader, writer, authority, str(asked.get("service") or ""))
            finally:
                writer.transport.abort()
    except TimeoutError:
        return Answer(Result.BAD, f"timeout: health rpc did not complete within {within:g}s")
    except OSError as problem:
        return Answer(Result.BAD, f"dial tcp {where[0]}:{where[1]}: connect: {_words(problem)}")
    except NoHealth as problem:
        return Answer(Result.BAD, f"error: {problem}")
    if state == "SERVING":
        return _GOOD
    return Answer(Result.BAD, f'service unhealthy (responded with "{state}")')


async def _status_code(target: Target, asked: Mapping[str, Any], where: tuple[str, int], path: str) -> int:
    is_secure = str(asked.get("scheme") or "").upper() == "HTTPS"
    options: dict[str, Any] = {"ssl": _trusting(), "server_hostname": where[0]} if is_secure else {}
    sock = await target.agent.connected(*where)
    reader, writer = await asyncio.open_connection(sock=sock, **options)
    try:
        headers = {"Host": f"{where[0]}:{where[1]}", "User-Agent": "kube-probe/pliant", "Accept": "*/*"}
        headers |= {each["name"]: each["value"] for each in asked.get("httpHeaders") or ()}
        lines = [f"GET {path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
        writer.write("\r\n".join([*lines, "Connection: close", "", ""]).encode())
        return _code_of(await reader.readline())
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


def _code_of(line: bytes) -> int:
    words = line.split()
    if len(words) < 2 or not words[0].startswith(b"HTTP/") or not words[1].isdigit():
        raise ValueError("EOF" if not line else f"malformed HTTP response {line[:40].decode(errors='replace')!r}")
    return int(words[1])


def _trusting() -> ssl.SSLContext:
    """Certificates are not verified, as in any cluster: pods mostly have their own."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def _port(asked: Mapping[str, Any], container: Mapping[str, Any]) -> int:
    wanted = asked.get("port")
    if isinstance(wanted, int):
        return wanted
    for each in container.get("ports") or ():
        if each.get("name") == wanted:
            return int(each["containerPort"])
    if isinstance(wanted, str) and wanted.isdigit():
        return int(wanted)
    raise Unusable(f"container {container['name']!r} has no port named {wanted!r}: add it to its ports")


def _words(problem: OSError) -> str:
    return os.strerror(problem.errno).lower() if problem.errno else str(problem)
