"""Parameter servers and workers in plain Python, configured by Paddle's environment variables; servers never exit."""

import json
import os
import random
import socket
import socketserver
import time

SERVERS = os.environ["PADDLE_PSERVERS_IP_PORT_LIST"].split(",")
RANK, WORKERS = int(os.environ["PADDLE_TRAINER_ID"]), int(os.environ["PADDLE_TRAINERS_NUM"])
TRUTH, RATE, STEPS = [1.5, -2.0, 0.7, 3.0], 0.05, 200
PATIENCE = 300  # seconds to wait for a server

weights: dict[str, float] = {}


class Parameters(socketserver.StreamRequestHandler):
    """Adds the received updates to the weights, and returns the weights."""

    def handle(self) -> None:
        for line in self.rfile:
            for name, step in json.loads(line).items():
                weights[name] = weights.get(name, 0.0) + step
            self.wfile.write(json.dumps(weights).encode() + b"\n")


def serve() -> None:
    port = int(SERVERS[RANK].rpartition(":")[2])
    with socketserver.ThreadingTCPServer(("", port), Parameters) as server:
        print(f"server {RANK} of {len(SERVERS)}", flush=True)
        server.serve_forever()


def reached(endpoint: str) -> socket.socket:
    host, _, port = endpoint.rpartition(":")
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        try:
            return socket.create_connection((host, int(port)))
        except OSError:
            time.sleep(0.05)  # the server is not ready, or its name does not resolve yet
    raise SystemExit(f"no server at {endpoint} within {PATIENCE} s")


def train() -> None:
    """Train a linear model on the data of this worker; each weight is stored on one server."""
    links = [reached(endpoint).makefile("rwb") for endpoint in SERVERS]
    chance, steps, error = random.Random(RANK), dict.fromkeys(map(str, range(len(TRUTH))), 0.0), 0.0
    for number in range(1, STEPS + 1):
        found: dict[str, float] = {}
        for place, link in enumerate(links):
            link.write(json.dumps({n: s for n, s in steps.items() if int(n) % len(links) == place}).encode() + b"\n")
            link.flush()
            found |= json.loads(link.readline())
        point = [chance.gauss(0, 1) for _ in TRUTH]
        error = sum((found[str(n)] - truth) * point[n] for n, truth in enumerate(TRUTH))
        steps = {str(n): -RATE * error * x for n, x in enumerate(point)}
        if number % 50 == 0:
            print(f"pliant: step={number} total={STEPS} loss={error * error:.6f}", flush=True)
    print(f"worker {RANK} of {WORKERS} has learnt {[round(found[str(n)], 1) for n in range(len(TRUTH))]}", flush=True)


if __name__ == "__main__":
    serve() if os.environ["TRAINING_ROLE"] == "PSERVER" else train()
