"""A synthetic trainer in plain Python: lockstep steps of a fixed time, among the current members of its job.

One member leads: it listens, and the others connect to it. A step counts when all members that are connected have
finished it. If one of them is lost, the step is made again without it. If the leader is lost, the others find a new one
among the members, the lowest rank first. A new member takes part from the next step on.
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
        self.stay = False  # whether the step is made again

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
        self.step = load_checkpoint() if WORKERS else 0

    def train(self) -> None:
        seen = -1
        while True:
            membership = self.job.wait_membership(seen, MEET_SECONDS)
            if membership.rank is None or len(membership.members) < max(WORKERS, 1):
                seen = membership.generation
                continue
            seen = -1
            try:
                leader = self.find_leader(membership)
                self.lead() if leader is None else self.follow(leader)
            except (OSError, ValueError, RoundOver) as problem:
                log(event="round over", problem=str(problem), generation=membership.generation)

    def find_leader(self, membership: elastic.Membership) -> Peer | None:
        """Return a connection to the member that leads; None if this one should lead, the lowest rank first."""
        patience = time.monotonic() + (0.5 * (membership.rank or 0) if not WORKERS or membership.rank else 0.0)
        while True:
            for member in membership.members:
                if member.rank != membership.rank and (peer := self.greet(member.address)) is not None:
                    return peer
            if time.monotonic() >= patience:
                return None
            time.sleep(0.05)

    def greet(self, address: str) -> Peer | None:
        try:
            peer = Peer(socket.create_connection((address, PORT), timeout=0.3))
            peer.send({"step": self.step})
            self.step = peer.receive()["start"]
        except (OSError, ValueError, RoundOver):
            return None
        return peer

    def lead(self) -> None:
        """Make steps with all members that are connected; a step is lost if one of them is lost."""
        peers: list[Peer] = []
        idle_since, next_look = time.monotonic(), time.monotonic() + 1.0
        with socket.create_server(("", PORT), backlog=64) as server:
            while True:
                self.admit(server, peers)
                membership = self.job.membership()
                is_alone = not peers and len(membership.members) > 1
                idle_since = idle_since if is_alone else time.monotonic()
                if time.monotonic() - idle_since > 2.0:
                    raise RoundOver("another member may lead")
                if time.monotonic() > next_look:
                    next_look = time.monotonic() + 2.0
                    self.yield_to_lower_rank(membership)
                if len(peers) + 1 < WORKERS:
                    time.sleep(0.01)
                    continue
                time.sleep(STEP_SECONDS)
                self.finish_step(peers)

    def yield_to_lower_rank(self, membership: elastic.Membership) -> None:
        """Stop leading if a member of a lower rank leads as well, because both started at the same moment."""
        for member in membership.members[: membership.rank or 0]:
            if (leader := self.greet(member.address)) is not None:
                leader.link.close()
                raise RoundOver("a member of a lower rank leads")

    def finish_step(self, peers: list[Peer]) -> None:
        for peer in [*peers]:
            try:
                peer.receive()
            except (OSError, ValueError, RoundOver):
                peers.remove(peer)
                if WORKERS:
                    raise
                for other in peers:
                    other.stay = True
        is_lost = any(peer.stay for peer in peers)
        self.step += not is_lost
        for peer in peers:
            peer.stay = False
            peer.send({"step": self.step})
        if not is_lost:
            log(step=self.step, members=len(peers) + 1)
            if WORKERS and self.step % CHECKPOINT_STEPS == 0:
                save_checkpoint(self.step)

    def admit(self, server: socket.socket, peers: list[Peer]) -> None:
        """Let members that have connected take part from the next step on."""
        while select.select([server], [], [], 0)[0]:
            peer = Peer(server.accept()[0])
            try:
                self.step = max(self.step, peer.receive()["step"])
                peer.send({"start": self.step})
            except (OSError, ValueError, RoundOver):
                continue
            peers.append(peer)

    def follow(self, leader: Peer) -> None:
        with leader.link:
            while True:
                time.sleep(STEP_SECONDS)
                leader.send("done")
                self.step = leader.receive()["step"]


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
