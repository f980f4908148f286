"""A synthetic trainer in plain Python: lockstep steps of a fixed time, among the current members of its job.

The first member coordinates each round of steps. A step counts when all members have finished it. If a connection
breaks, the round ends, the step is lost, and the members meet again as soon as they learn the new membership.
"""

from __future__ import annotations

import json
import os
import select
import socket
import time
from pathlib import Path
from typing import Any

from pliant import elastic

PORT = 29400
STEP_SECONDS = float(os.environ["STEP_SECONDS"])
LOG = Path(os.environ["LOG_DIR"]) / f"{os.environ['HOSTNAME']}-{os.getpid()}.jsonl"
CHECKPOINT = Path(os.environ["LOG_DIR"]) / "checkpoint.json"
WORKERS = int(os.environ.get("FIXED_WORKERS", "0"))
"""The number of workers without which no step is made; 0 if the members train as many as they are."""
CHECKPOINT_STEPS = 10
MEET_SECONDS = 10.0


class RoundOver(Exception):
    """A member is lost, or the membership has changed."""


class Peer:
    def __init__(self, link: socket.socket) -> None:
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        link.settimeout(MEET_SECONDS)
        self.link, self.lines = link, link.makefile()

    def send(self, message: Any) -> None:
        self.link.sendall(json.dumps(message).encode() + b"\n")

    def receive(self) -> Any:
        line = self.lines.readline()
        if not line.endswith("\n"):
            raise RoundOver("a member is lost")
        return json.loads(line)


class Trainer:
    def __init__(self) -> None:
        self.job = elastic.join()
        self.server = socket.create_server(("", PORT), backlog=64)
        self.step = load_checkpoint() if WORKERS else 0

    def train(self) -> None:
        seen = -1
        while True:
            membership = self.job.wait_membership(seen, MEET_SECONDS)
            if membership.rank is None or len(membership.members) < max(WORKERS, 1):
                seen = membership.generation
                continue
            try:
                self.lead(membership) if membership.rank == 0 else self.follow(membership)
            except (OSError, ValueError, RoundOver) as problem:
                log(event="round over", problem=str(problem), generation=membership.generation)
            # A lost member is published within a moment; otherwise the same members meet again.
            self.job.wait_membership(membership.generation, 2.0)

    def lead(self, membership: elastic.Membership) -> None:
        peers = self.gather(membership)
        try:
            self.step = max([self.step, *(peer.receive()["step"] for peer in peers)])
            for peer in peers:
                peer.send({"start": self.step})
            while self.job.membership().generation == membership.generation:
                time.sleep(STEP_SECONDS)
                for peer in peers:
                    peer.receive()
                self.step += 1
                for peer in peers:
                    peer.send({"step": self.step})
                log(step=self.step, members=len(peers) + 1)
                if WORKERS and self.step % CHECKPOINT_STEPS == 0:
                    save_checkpoint(self.step)
        finally:
            for peer in peers:
                peer.link.close()

    def gather(self, membership: elastic.Membership) -> list[Peer]:
        """Accept the other members of this generation."""
        peers: dict[int, Peer] = {}
        deadline = time.monotonic() + MEET_SECONDS
        while len(peers) < len(membership.members) - 1:
            if self.job.membership().generation != membership.generation or time.monotonic() > deadline:
                raise RoundOver("the members have not met")
            if select.select([self.server], [], [], 0.05)[0]:
                peer = Peer(self.server.accept()[0])
                try:
                    hello = peer.receive()
                except (OSError, ValueError, RoundOver):
                    continue
                if hello["generation"] == membership.generation:
                    peers[hello["rank"]] = peer
                else:
                    peer.link.close()
        return list(peers.values())

    def follow(self, membership: elastic.Membership) -> None:
        leader = membership.members[0].address
        deadline = time.monotonic() + MEET_SECONDS
        while True:
            try:
                peer = Peer(socket.create_connection((leader, PORT), timeout=2))
                peer.send({"generation": membership.generation, "rank": membership.rank})
                peer.send({"step": self.step})
                self.step = peer.receive()["start"]
                break
            except (OSError, RoundOver):
                if self.job.membership().generation != membership.generation or time.monotonic() > deadline:
                    raise
                time.sleep(0.05)
        with peer.link:
            while True:
                time.sleep(STEP_SECONDS)
                peer.send("done")
                self.step = peer.receive()["step"]


def load_checkpoint() -> int:
    return int(json.loads(CHECKPOINT.read_text())["step"]) if CHECKPOINT.exists() else 0


def save_checkpoint(step: int) -> None:
    part = CHECKPOINT.with_suffix(".part")
    part.write_text(json.dumps({"step": step}))
    part.replace(CHECKPOINT)


def log(**fields: Any) -> None:
    with LOG.open("a") as file:
        file.write(json.dumps({"at": time.time(), **fields}) + "\n")


if __name__ == "__main__":
    Trainer().train()
