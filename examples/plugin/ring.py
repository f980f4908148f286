"""Computes the sum of one number per worker: each worker forwards the numbers to the next worker of the ring."""

from __future__ import annotations

import os
import socket
import time


def linked(host: str, port: int) -> socket.socket:
    """Connect to the next worker; wait until it is ready."""
    for _ in range(300):
        try:
            return socket.create_connection((host, port), timeout=5)
        except OSError:
            time.sleep(0.1)
    raise SystemExit(f"cannot connect to {host}:{port}")


rank, size, port = (int(os.environ[f"RING_{name}"]) for name in ("RANK", "SIZE", "PORT"))
host, _, gate = os.environ["RING_NEXT"].rpartition(":")
with socket.create_server(("", port)) as server, linked(host, int(gate)) as following:
    before = server.accept()[0]
    lines = before.makefile()
    total = passed = rank + 1
    for _hop in range(size - 1):
        following.sendall(f"{passed}\n".encode())
        passed = int(lines.readline())
        total += passed
    print(f"rank {rank} of {size}: the sum is {total}", flush=True)
