"""Accepts connections on a listening socket, at a pace that leaves time for the connections that exist."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from socket import AF_INET6, AI_PASSIVE, IPPROTO_IPV6, IPV6_V6ONLY, SO_REUSEADDR, SOCK_STREAM, SOL_SOCKET, socket

ACCEPT_RETRY_SECONDS = 0.5
LISTEN_BACKLOG = 512
MAX_OPEN_FILES = 65_536
"""The soft limit of open files is not raised beyond it: some programs try every descriptor below their limit."""

log = logging.getLogger(__name__)


def raise_open_file_limit() -> None:
    """Raise the soft limit of open files of this process to its hard limit, or to MAX_OPEN_FILES."""
    import resource  # exists only on POSIX systems, where servers run

    soft_limit, hard_limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    target = MAX_OPEN_FILES if hard_limit == resource.RLIM_INFINITY else min(hard_limit, MAX_OPEN_FILES)
    if target > soft_limit != resource.RLIM_INFINITY:
        resource.setrlimit(resource.RLIMIT_NOFILE, (target, hard_limit))


def max_connections(share: int = 4) -> int:
    """Return a share of the open files that this process may have: by default a quarter, so that others remain."""
    import resource

    soft_limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return (MAX_OPEN_FILES if soft_limit == resource.RLIM_INFINITY else min(soft_limit, MAX_OPEN_FILES)) // share


async def bind_sockets(host: str | None, port: int) -> list[socket]:
    """Return sockets for all addresses of a host, with one port; no host means every address, port 0 any free port."""
    loop = asyncio.get_running_loop()
    addresses = await loop.getaddrinfo(host, port, type=SOCK_STREAM, flags=AI_PASSIVE)
    bound: list[socket] = []
    for family, _, _, _, address in dict.fromkeys(addresses):
        if bound:
            address = (address[0], bound[0].getsockname()[1], *address[2:])
        sock = socket(family, SOCK_STREAM)
        try:
            sock.setsockopt(SOL_SOCKET, SO_REUSEADDR, 1)
            if family == AF_INET6:
                sock.setsockopt(IPPROTO_IPV6, IPV6_V6ONLY, 1)
            sock.bind(address)
        except OSError:
            sock.close()
            if not bound:
                raise
        else:
            bound.append(sock)
    return bound


async def accept_connections(listener: socket, on_connection: Callable[[socket], None]) -> None:
    """Listen and accept connections until cancelled, at most one in each iteration of the event loop.

    asyncio accepts a hundred at a time, so a crowd of new connections would keep others from being served. It also
    logs a hundred tracebacks a second when the process has no file descriptors left.
    """
    loop = asyncio.get_running_loop()
    listener.setblocking(False)
    listener.listen(LISTEN_BACKLOG)
    while True:
        try:
            connection, _ = await loop.sock_accept(listener)
        except ConnectionAbortedError:
            continue
        except OSError as error:
            log.warning("cannot accept connections", extra={"error": str(error)})
            await asyncio.sleep(ACCEPT_RETRY_SECONDS)
            continue
        on_connection(connection)
        await asyncio.sleep(0)
