"""A linear model in plain Python: servers store the weights, and trainers join and leave.

Both roles run this file, like programs for Paddle; PADDLE_TRAINING_ROLE selects the role.
"""

import json
import os
import random
import socket
import socketserver
import time
from typing import IO, Any

TRUTH = [1.0, -2.0, 0.5, 3.0]
RATE = 0.05
PASSES = int(os.environ.get("PADDLE_INIT_NUM_PASSES", "1"))
STEPS = 50 * PASSES
PAUSE = float(os.environ.get("STEP_SECONDS", "0.01"))
PATIENCE = 300  # seconds to wait for a server, or for the name of this replica


class Server(socketserver.StreamRequestHandler):
    """Stores every nth weight, where n is the number of servers; the first server counts the steps of all trainers."""

    weights = [0.0] * len(TRUTH)
    done = 0

    def handle(self) -> None:
        for line in self.rfile:
            for place, slope in json.loads(line).items():
                Server.weights[int(place)] -= RATE * slope
            Server.done += line != b"{}\n"
            self.wfile.write(json.dumps([Server.weights, Server.done]).encode() + b"\n")


class Peer:
    """The connection of a trainer to a server; requests are repeated until the server answers."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self.address = (host, int(port))
        self.file: IO[str] | None = None

    def ask(self, slopes: dict[int, float]) -> Any:
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            try:
                self.file = self.file or socket.create_connection(self.address, 5).makefile("rw")
                self.file.write(json.dumps(slopes) + "\n")
                self.file.flush()
                return json.loads(self.file.readline())
            except (OSError, ValueError):
                self.file = None
                time.sleep(0.1)  # the server is not ready, its name does not resolve yet, or it is being restarted
        raise SystemExit(f"no server at {self.address[0]}:{self.address[1]} within {PATIENCE} s")


def serve() -> None:
    here = (os.environ["POD_IP"], int(os.environ["PADDLE_PORT"]))
    wait_for_name(here[0])
    socketserver.ThreadingTCPServer.allow_reuse_address = True
    print(f"serving at {here[0]}:{here[1]}", flush=True)
    socketserver.ThreadingTCPServer(here, Server).serve_forever()


def wait_for_name(host: str) -> None:
    """Wait until a name resolves: a cluster may publish the names of a pod only after the pod has started."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        try:
            socket.getaddrinfo(host, None)
            return
        except OSError:
            time.sleep(0.1)
    raise SystemExit(f"{host} does not resolve after {PATIENCE} s")


def train() -> None:
    number = int(os.environ["PADDLE_TRAINER_ID"])
    servers = [Peer(address) for address in os.environ["PADDLE_PSERVERS_IP_PORT_LIST"].split(",")]
    chance = random.Random(number)
    print(f"trainer {number} of {os.environ['PADDLE_TRAINERS']}, {len(servers)} servers", flush=True)
    while True:
        answers = [server.ask({}) for server in servers]
        weights = [answers[place % len(servers)][0][place] for place in range(len(TRUTH))]
        done, loss = answers[0][1], sum((w - t) ** 2 for w, t in zip(weights, TRUTH, strict=True))
        if number == 0 and done % 50 == 0:
            print(f"pliant: step={done} total={STEPS} loss={loss:.2g}", flush=True)
        if done >= STEPS:
            print(f"trained to loss {loss:.2g}", flush=True)
            return
        x = [chance.gauss(0, 1) for _ in TRUTH]
        error = sum((w - t) * each for w, t, each in zip(weights, TRUTH, x, strict=True))
        for first, server in enumerate(servers):
            server.ask({place: error * x[place] for place in range(first, len(TRUTH), len(servers))})
        time.sleep(PAUSE)


if __name__ == "__main__":
    serve() if os.environ["PADDLE_TRAINING_ROLE"] == "PSERVER" else train()
