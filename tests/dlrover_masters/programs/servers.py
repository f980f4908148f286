"""Trains around parameter servers that TF_CONFIG names, until it is told that it is enough; servers never end."""

import json
import os
import random
import socket
import socketserver
import time
from pathlib import Path

ENOUGH = Path("/mnt/enough")
PAUSE = 0.2
PORT = 2222
RATE = 0.05
PATIENCE = 60.0


class Push(socketserver.StreamRequestHandler):
    """Takes a gradient, answers with the weight."""

    weight = 0.0

    def handle(self) -> None:
        for line in self.rfile:
            Push.weight -= RATE * float(line)
            self.wfile.write(f"{Push.weight}\n".encode())


def answered(server: str, gradient: float) -> float:
    """What a server answers, which may not be there yet or be replaced meanwhile."""
    host, _, port = server.rpartition(":")
    until = time.monotonic() + PATIENCE
    while True:
        try:
            with socket.create_connection((host, int(port)), timeout=5) as connection:
                connection.sendall(f"{gradient}\n".encode())
                return float(connection.makefile().readline())
        except (OSError, ValueError) as problem:
            if time.monotonic() > until:
                raise
            print(f"no {server} yet: {problem}", flush=True)
            time.sleep(1)


def train(servers: list[str]) -> float:
    """Learn the number 3 with others; all servers hold a copy, and the first one's counts."""
    weight = 0.0
    while not ENOUGH.exists() or abs(weight - 3) > 0.1:
        point = random.uniform(-1, 1)
        gradient = 2 * (weight - 3) * point * point
        weight, *_ = [answered(server, gradient) for server in servers]
        time.sleep(PAUSE)
    return weight


def main() -> None:
    print(f"TF_CONFIG {os.environ.get('TF_CONFIG')}", flush=True)
    if os.environ["NODE_TYPE"] == "ps":
        socketserver.ThreadingTCPServer.allow_reuse_address = True
        socketserver.ThreadingTCPServer(("", PORT), Push).serve_forever()
    config = json.loads(os.environ["TF_CONFIG"])
    task = config["task"]
    print(f"{task['type']} {task['index']} begins around {config['cluster']['ps']}", flush=True)
    print(f"{task['type']} {task['index']} trained to {train(config['cluster']['ps']):.2f}", flush=True)


if __name__ == "__main__":
    main()
