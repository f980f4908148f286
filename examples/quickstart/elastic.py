"""Data-parallel SGD in plain Python for any number of workers, which may join, leave and fail during training.

The division of the data into shards is fixed. In each step, rank 0 assigns the shards to the connected workers. If a
worker disconnects, rank 0 reassigns its shard. Rank 0 adds the gradients in the order of the shards, so the result does
not depend on which worker computes which shard.
"""

import json
import math
import os
import random
import selectors
import signal
import socket
import sys
import time
from collections import deque
from typing import Any

CHIEF = os.environ["WORKER_INSTANCES"].split(",")[0]
PORT = int(os.environ["WORKER_PORTS"].split(",")[0])
OWN = os.environ.get("POD_IP", "")  # the address to listen on: all addresses, except with the host network
RANK = int(os.environ["TRAININGJOB_REPLICA_INDEX"])
STEPS = int(os.environ.get("STEPS", "200"))
PAUSE = float(os.environ.get("PAUSE", "0.02"))  # simulated computation time per shard, in seconds
SHARDS = 8
TRUTH = [1.5, -2.0, 0.7, 3.0]
RATE = 0.5
PATIENCE = 300  # seconds to wait for rank 0

Answer = tuple[list[float], float]


def say(text: str) -> None:
    print(text, flush=True)


def shard(number: int) -> list[tuple[list[float], float]]:
    """Return random points with labels: the side of a plane, with noise. The shard is the same in every worker."""
    chance = random.Random(number)
    points = [[chance.gauss(0, 1) for _ in TRUTH] for _ in range(200)]
    sides = [sum(t * x for t, x in zip(TRUTH, point, strict=True)) + chance.gauss(0, 0.5) > 0 for point in points]
    return [(point, float(side)) for point, side in zip(points, sides, strict=True)]


DATA = [shard(number) for number in range(SHARDS)]


def gradient(number: int, weights: list[float]) -> Answer:
    """Return the gradient and the loss of logistic regression over one shard."""
    time.sleep(PAUSE)
    slope, loss = [0.0] * len(weights), 0.0
    for point, label in DATA[number]:
        guess = 1 / (1 + math.exp(-sum(w * x for w, x in zip(weights, point, strict=True))))
        loss -= math.log(max(1e-9, guess if label else 1 - guess))
        slope = [s + (guess - label) * x for s, x in zip(slope, point, strict=True)]
    return [s / len(DATA[number]) for s in slope], loss / len(DATA[number])


class Peer:
    """A connection to another worker; each message is one line of JSON."""

    def __init__(self, link: socket.socket) -> None:
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.link, self.lines = link, link.makefile()
        self.name, self.shard = "?", -1  # the assigned shard; -1 if there is none

    def send(self, message: Any) -> None:
        self.link.sendall(json.dumps(message).encode() + b"\n")

    def receive(self) -> Any:
        line = self.lines.readline()
        if not line.endswith("\n"):
            raise ConnectionResetError("the peer closed the connection")
        return json.loads(line)


class Team:
    """The connections of rank 0 to the other workers."""

    def __init__(self) -> None:
        self.server = socket.create_server((OWN, PORT))
        self.selector = selectors.DefaultSelector()
        self.selector.register(self.server, selectors.EVENT_READ)
        self.peers: list[Peer] = []

    def step(self, weights: list[float]) -> list[Answer]:
        """Return the gradients of all shards, in the order of the shards."""
        answers: dict[int, Answer] = {}
        todo = deque(range(SHARDS))
        while len(answers) < SHARDS:
            for peer in [peer for peer in self.peers if peer.shard < 0]:
                if not todo:
                    break
                peer.shard = todo.popleft()
                try:
                    peer.send({"shard": peer.shard, "weights": weights})
                except OSError:
                    self.lose(peer, todo)
            if todo:
                number = todo.popleft()
                answers[number] = gradient(number, weights)
            self.listen(answers, todo, wait=not todo and len(answers) < SHARDS)
        return [answers[number] for number in range(SHARDS)]

    def listen(self, answers: dict[int, Answer], todo: deque[int], *, wait: bool) -> None:
        """Process new connections, answers, and closed connections."""
        for key, _ in self.selector.select(None if wait else 0):
            if key.fileobj is self.server:
                self.welcome(Peer(self.server.accept()[0]))
                continue
            peer: Peer = key.data
            try:
                answer = peer.receive()
            except (OSError, ValueError):
                self.lose(peer, todo)
                continue
            answers[peer.shard], peer.shard = (answer[0], answer[1]), -1

    def welcome(self, peer: Peer) -> None:
        try:
            peer.name = str(peer.receive())
        except (OSError, ValueError):
            return
        self.peers.append(peer)
        self.selector.register(peer.link, selectors.EVENT_READ, peer)
        say(f"{peer.name} joined, {self.number()} now")

    def number(self) -> str:
        return f"{len(self.peers) + 1} workers" if self.peers else "1 worker"

    def lose(self, peer: Peer, todo: deque[int]) -> None:
        """Remove a worker; its shard is reassigned."""
        self.selector.unregister(peer.link)
        peer.link.close()
        self.peers.remove(peer)
        if peer.shard >= 0:
            todo.append(peer.shard)
        say(f"{peer.name} left, {self.number()} now")


def lead() -> None:
    """Run rank 0: in each step, assign the shards and update the weights with the average gradient."""
    weights, team, loss = [0.0] * len(TRUTH), Team(), 0.0
    for step in range(1, STEPS + 1):
        slopes, losses = zip(*team.step(weights), strict=True)
        weights = [w - RATE * sum(slope) / SHARDS for w, *slope in zip(weights, *slopes, strict=True)]
        loss = sum(losses) / SHARDS
        if step == 1 or step % 10 == 0:
            say(f"pliant: step={step} total={STEPS} loss={loss:.6f} workers={len(team.peers) + 1}")
    say(f"trained to loss {loss:.12f}")


def follow() -> None:
    """Run any other rank: compute the gradients that rank 0 requests, until SIGTERM."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        try:
            chief = Peer(socket.create_connection((CHIEF, PORT)))
            chief.send(f"worker-{RANK}")
            while task := chief.receive():
                chief.send(gradient(task["shard"], task["weights"]))
                deadline = time.monotonic() + PATIENCE
        except OSError:
            time.sleep(0.05)  # rank 0 is not ready, its name does not resolve yet, or it has exited
    sys.exit(f"no rank 0 at {CHIEF}:{PORT} within {PATIENCE} s")


if __name__ == "__main__":
    lead() if RANK == 0 else follow()
