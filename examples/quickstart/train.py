"""Data-parallel SGD in plain Python: each worker has a shard of the data, and rank 0 averages the gradients.

Rank 0 sends the weights to all workers, and each worker returns the gradient of its own shard. Workers keep no state
between steps: after a restart, a worker continues at the step at which rank 0 waits for it.
"""

import json
import math
import os
import random
import signal
import socket
import sys
import time
from typing import Any

HOSTS = os.environ["WORKER_INSTANCES"].split(",")
PORT = int(os.environ["WORKER_PORTS"].split(",")[0])
OWN = os.environ.get("POD_IP", "")  # the address to listen on: all addresses, except with the host network
RANK = int(os.environ["TRAININGJOB_REPLICA_INDEX"])
ATTEMPT = int(os.environ["TRAININGJOB_REPLICA_RESTARTCOUNT"])
STEPS = int(os.environ.get("STEPS", "200"))
KILL_AT_STEP = int(os.environ.get("KILL_AT_STEP", "0"))
TRUTH = [1.5, -2.0, 0.7, 3.0]
RATE = 0.5
PATIENCE = 300  # seconds to wait for rank 0

chance = random.Random(RANK)


def say(text: str) -> None:
    print(text, flush=True)


def example() -> tuple[list[float], float]:
    """Return a random point and its label: the side of a plane, with noise."""
    point = [chance.gauss(0, 1) for _ in TRUTH]
    return point, float(sum(t * x for t, x in zip(TRUTH, point, strict=True)) + chance.gauss(0, 0.5) > 0)


SHARD = [example() for _ in range(1000)]


def gradient(weights: list[float]) -> tuple[list[float], float]:
    """Return the gradient and the loss of logistic regression over the shard of this worker."""
    slope, loss = [0.0] * len(weights), 0.0
    for point, label in SHARD:
        guess = 1 / (1 + math.exp(-sum(w * x for w, x in zip(weights, point, strict=True))))
        loss -= math.log(max(1e-9, guess if label else 1 - guess))
        slope = [s + (guess - label) * x for s, x in zip(slope, point, strict=True)]
    return [s / len(SHARD) for s in slope], loss / len(SHARD)


class Peer:
    """A connection to another worker; each message is one line of JSON."""

    def __init__(self, link: socket.socket) -> None:
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.link, self.lines = link, link.makefile()

    def send(self, message: Any) -> None:
        self.link.sendall(json.dumps(message).encode() + b"\n")

    def receive(self) -> Any:
        line = self.lines.readline()
        if not line.endswith("\n"):
            raise ConnectionResetError("the peer closed the connection")
        return json.loads(line)


class Team:
    """The connections of rank 0 to the other workers; rank 0 waits for a lost worker."""

    def __init__(self) -> None:
        self.server = socket.create_server((OWN, PORT))
        self.peers: dict[int, Peer] = {}

    def ask(self, rank: int, step: int, weights: list[float]) -> None:
        """Send the weights to a worker; wait until it is connected."""
        while True:
            while rank not in self.peers:
                newcomer = Peer(self.server.accept()[0])
                self.peers[newcomer.receive()] = newcomer
            try:
                return self.peers[rank].send({"step": step, "weights": weights})
            except ConnectionError:
                self.lose(rank, step)

    def answer(self, rank: int, step: int, weights: list[float]) -> Any:
        """Return the gradient and the loss of a worker; repeat the request if the connection is lost."""
        while True:
            try:
                return self.peers[rank].receive()
            except ConnectionError:
                self.lose(rank, step)
                self.ask(rank, step, weights)

    def lose(self, rank: int, step: int) -> None:
        say(f"lost worker {rank} at step {step}, waiting for it")
        del self.peers[rank]


def lead() -> None:
    """Run rank 0: send the weights, average the gradients, and wait for restarted workers."""
    weights, team, others = [0.0] * len(TRUTH), Team(), range(1, len(HOSTS))
    for step in range(1, STEPS + 1):
        for rank in others:
            team.ask(rank, step, weights)
        answers = [gradient(weights)] + [team.answer(rank, step, weights) for rank in others]
        slopes, losses = zip(*answers, strict=True)
        weights = [w - RATE * sum(slope) / len(slopes) for w, *slope in zip(weights, *slopes, strict=True)]
        if step == 1 or step % 20 == 0:
            say(f"step {step} loss {sum(losses) / len(losses):.4f}")
    for peer in team.peers.values():
        peer.send(None)
    say("trained " + " ".join(f"{w:+.2f}" for w in weights))


def follow() -> None:
    """Run any other rank: return a gradient for the weights of each step, until rank 0 sends null."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            leader = Peer(socket.create_connection((HOSTS[0], PORT)))
            leader.send(RANK)
            break
        except OSError as problem:
            if time.monotonic() > deadline:
                sys.exit(f"no rank 0 at {HOSTS[0]}:{PORT} within {PATIENCE} s: {problem}")
            time.sleep(0.05)  # rank 0 is not ready, or its name does not resolve yet
    say(f"joined {HOSTS[0]}:{PORT}")
    while task := leader.receive():
        if task["step"] == KILL_AT_STEP and ATTEMPT == 0:
            say(f"step {KILL_AT_STEP}: kill -9 myself")
            os.kill(os.getpid(), signal.SIGKILL)
            os._exit(137)  # the kernel ignores a SIGKILL that the first process of a container sends to itself
        leader.send(gradient(task["weights"]))
    say("done")


if __name__ == "__main__":
    lead() if RANK == 0 else follow()
