"""Open sockets in the pods' network for the parent, which stands in another one."""

from __future__ import annotations

import socket

_KINDS = {"stream": socket.SOCK_STREAM, "datagram": socket.SOCK_DGRAM}
_BACKLOG = 1024


def opened(kind: str, address: str, port: int) -> socket.socket:
    """A socket of this network: bound, and listening if it can, where an address is given."""
    sock = socket.socket(socket.AF_INET, _KINDS[kind])
    try:
        if address:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind((address, port))
            if kind == "stream":
                sock.listen(_BACKLOG)
    except OSError:
        sock.close()
        raise
    return sock
