"""Data-parallel SGD in plain Python: each worker holds a shard of the data, rank 0 averages their gradients.

Rank 0 sends the weights to everyone, everyone answers with the gradient of its own shard. A worker keeps nothing
between steps, so one that dies and comes back joins at the step where the others wait for it.
"""

import json
import math
import os
import random
import signal
import socket
import time
from typing import Any

HOSTS = os.environ["WORKER_INSTANCES"].split(",")
PORT = int(os.environ["WORKER_PORTS"].split(",")[0])
OWN = os.environ.get("POD_IP", "")  # where to listen: everywhere, unless pods share a machine's network
RANK = int(os.environ["TRAININGJOB_REPLICA_INDEX"])
ATTEMPT = int(os.environ["TRAININGJOB_REPLICA_RESTARTCOUNT"])
STEPS = int(os.environ.get("STEPS", "200"))
KILL_AT_STEP = int(os.environ.get("KILL_AT_STEP", "0"))
TRUTH = [1.5, -2.0, 0.7, 3.0]
RATE = 0.5

chance = random.Random(RANK)


def say(text: str) -> None:
    print(text, flush=True)


def example() -> tuple[list[float], float]:
    """A random point, and whether it lies on the far side of the plane to be learnt (with some noise)."""
    point = [chance.gauss(0, 1) for _ in TRUTH]
    return point, float(sum(t * x for t, x in zip(TRUTH, point, strict=True)) + chance.gauss(0, 0.5) > 0)


SHARD = [example() for _ in range(1000)]


def gradient(weights: list[float]) -> tuple[list[float], float]:
    """The gradient and the loss of logistic regression over this worker's shard."""
    slope, loss = [0.0] * len(weights), 0.0
    for point, label in SHARD:
        guess = 1 / (1 + math.exp(-sum(w * x for w, x in zip(weights, point, strict=True))))
        loss -= math.log(max(1e-9, guess if label else 1 - guess))
        slope = [s + (guess - label) * x for s, x in zip(slope, point, strict=True)]
    return [s / len(SHARD) for s in slope], loss / len(SHARD)


class Peer:
    """One line of JSON at a time, to and from another worker."""

    def __init__(self, link: socket.socket) -> None:
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.link, self.lines = link, link.makefile()

    def send(self, message: Any) -> None:
        self.link.sendall(json.dumps(message).encode() + b"\n")

    def receive(self) -> Any:
        line = self.lines.readline()
        if not line.endswith("\n"):
            raise ConnectionResetError("the other worker is gone")
        return json.loads(line)


class Team:
    """The other workers as rank 0 sees them; one that is lost is waited for."""

    def __init__(self) -> None:
        self.server = socket.create_server((OWN, PORT))
        self.peers: dict[int, Peer] = {}

    def ask(self, rank: int, step: int, weights: list[float]) -> None:
        """Send a worker the weights; first wait for it to come, or to come back."""
        while True:
            while rank not in self.peers:
                newcomer = Peer(self.server.accept()[0])
                self.peers[newcomer.receive()] = newcomer
            try:
                return self.peers[rank].send({"step": step, "weights": weights})
            except ConnectionError:
                self.lose(rank, step)

    def answer(self, rank: int, step: int, weights: list[float]) -> Any:
        """A worker's gradient and loss; asked again if the worker dies before it answers."""
        while True:
            try:
                return self.peers[rank].receive()
            except ConnectionError:
                self.lose(rank, step)
                self.ask(rank, step, weights)

    def lose(self, rank: int, step: int) -> None:
        say(f"worker {rank} is gone at step {step}, waiting for it")
        del self.peers[rank]


def lead() -> None:
    """Rank 0: hand out the weights, average the gradients, wait for workers that come back."""
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
    """Any other rank: answer the weights of each step with a gradient, until told that it is over."""
    while True:
        try:
            leader = Peer(socket.create_connection((HOSTS[0], PORT)))
            leader.send(RANK)
            break
        except OSError:
            time.sleep(0.05)  # rank 0 is not up yet, or its name is not known yet
    say(f"joined {HOSTS[0]}:{PORT}")
    while task := leader.receive():
        if task["step"] == KILL_AT_STEP and ATTEMPT == 0:
            say(f"step {KILL_AT_STEP}: kill -9 myself")
            os.kill(os.getpid(), signal.SIGKILL)
            os._exit(137)  # the first process of a container survives its own signals
        leader.send(gradient(task["weights"]))
    say("done")


if __name__ == "__main__":
    lead() if RANK == 0 else follow()
