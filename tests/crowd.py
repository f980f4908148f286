"""A crowd of clients that hold connections to a server and send as little as they can.

As a program, `python -m tests.crowd PORT COUNT KIND`, it prints `ready` when all connections are open, and holds them
until its input ends.
"""

from __future__ import annotations

import asyncio
import resource
import socket
import ssl
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress

START_OF_TLS = b"\x16\x03\x01\x02\x00\x01\x00"
SLOW_HEADERS = b"GET /api/v1/pods HTTP/1.1\r\nHost: localhost\r\nX-Slow: "
SLOW_BODY = b"POST /api/v1/pods HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n{"


@asynccontextmanager
async def crowd(port: int, count: int, kind: str) -> AsyncIterator[None]:
    """Let another process hold many connections while the block runs."""
    arguments = [sys.executable, "-m", "tests.crowd", str(port), str(count), kind]
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*arguments, stdin=pipe, stdout=pipe)
    assert process.stdout is not None
    try:
        assert (await asyncio.wait_for(process.stdout.readline(), 60)).startswith(b"ready")
        yield
    finally:
        process.kill()
        await process.wait()


@contextmanager
def few_open_files(count: int) -> Iterator[None]:
    """Let this process have few open files, as many programs have by default."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (count, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def join_crowd(port: int, kind: str, context: ssl.SSLContext) -> socket.socket:
    """Open one connection."""
    joined = socket.create_connection(("127.0.0.1", port), timeout=30)
    with suppress(OSError):  # closed for a newer one
        if kind == "half a handshake":
            joined.sendall(START_OF_TLS)
        elif kind != "silent":
            joined = context.wrap_socket(joined, server_hostname="localhost")
            joined.sendall({"slow headers": SLOW_HEADERS, "slow bodies": SLOW_BODY}[kind])
    return joined


def main(port: str, count: str, kind: str) -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    joined = [join_crowd(int(port), kind, context) for _ in range(min(int(count), most - 100))]
    print("ready", len(joined), flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
