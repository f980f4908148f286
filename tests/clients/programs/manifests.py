"""Objects that the programs create, and how they report a check."""

import contextlib
import socket
import time
from collections.abc import Iterator

LIMIT_SECONDS = 60.0
ECHO_SERVER = """
import socket, time
server = socket.create_server(("", 8000))
print("listening", flush=True)
while True:
    connection, _ = server.accept()
    connection.sendall(b"echo " + connection.recv(1000))
    connection.close()
"""


def config_map(name: str) -> dict:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "labels": {"program": name}},
        "data": {"a": "1"},
    }


def pod(name: str) -> dict:
    """Return a pod that answers on port 8000 and logs `listening`."""
    container = {"name": "main", "image": "python:3.12", "command": ["python3", "-c", ECHO_SERVER]}
    spec = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 0, "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"program": name}}, "spec": spec}


def passed(check: str) -> None:
    print(f"ok {check}", flush=True)


def attempts(what: str) -> Iterator[None]:
    """Yield until the caller leaves the loop; fail after a limit."""
    end = time.monotonic() + LIMIT_SECONDS
    while time.monotonic() < end:
        yield
        time.sleep(0.05)
    raise AssertionError(f"not within {LIMIT_SECONDS:.0f} s: {what}")


def echo_through(connection: socket.socket, text: bytes = b"hello") -> bytes:
    """Return what the pod answers on a connection."""
    with contextlib.closing(connection):
        connection.settimeout(LIMIT_SECONDS)
        connection.sendall(text)
        answer = b""
        while chunk := connection.recv(1000):
            answer += chunk
        return answer


def echo_at(port: int) -> bytes:
    return echo_through(socket.create_connection(("127.0.0.1", port), timeout=LIMIT_SECONDS))
