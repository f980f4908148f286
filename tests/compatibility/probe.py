"""The program of every replica: checks its rank and world, and meets every peer that its environment names.

It needs nothing but Python, and `contracts.py`. Its arguments tell what the manifest says, its environment what the
operator made of it.
Every replica listens at its own address, says hello to each peer and checks who answers. It says goodbye once all its
peers have answered, and ends once all who know it have said goodbye, so that nobody knocks at a closed door.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import sys
import threading
import time
from typing import Any

from tests.compatibility.contracts import CONTRACTS, PATIENCE, Contract, Manifest, Peer, Violation, check


class Meeting:
    """Who has said hello and goodbye to this replica."""

    def __init__(self, contract: Contract) -> None:
        self._contract = contract
        self._said: dict[str, set[str]] = {"hello": set(), "goodbye": set()}
        self._news = threading.Condition()

    def listen(self) -> None:
        """Answer everybody with one's own identity, from now on."""
        server = socket.create_server(("", self._contract.port))
        threading.Thread(target=self._answer_all, args=(server,), daemon=True).start()

    def _answer_all(self, server: socket.socket) -> None:
        while True:
            connection, _ = server.accept()
            with connection, connection.makefile("rw") as stream:
                line = stream.readline()
                if not line:  # a readiness probe
                    continue
                word, identity, address = json.loads(line)
                with self._news:
                    known = self._said[word]
                    if identity in known and word == "hello":
                        print(f"two replicas say that they are {identity}; one is {address}", flush=True)
                        os._exit(1)
                    known.add(identity)
                    self._news.notify_all()
                stream.write(json.dumps(self._contract.identity) + "\n")

    def wait(self) -> None:
        """Wait until everybody who knows this replica has said goodbye."""
        with self._news:
            have_left = self._news.wait_for(lambda: self._said["goodbye"] >= self._contract.callers, PATIENCE)
        missing = sorted(self._contract.callers - self._said["goodbye"])
        check(have_left, f"never heard of: {missing}; heard of: {sorted(self._said['hello'])}")
        check(
            not self._contract.callers or self._said["hello"] == self._contract.callers,
            f"strangers: {self._said['hello']}",
        )


def tell(word: str, peer: Peer, contract: Contract, deadline: float) -> None:
    """Say hello or goodbye, again and again until somebody answers, who must be the one expected."""
    while True:
        try:
            with socket.create_connection((peer.host, peer.port), 5) as connection, connection.makefile("rw") as stream:
                stream.write(json.dumps([word, contract.identity, socket.gethostname()]) + "\n")
                stream.flush()
                answer = stream.readline()
        except OSError as problem:
            check(time.monotonic() < deadline, f"cannot reach {peer}: {problem}")
            time.sleep(0.2)
            continue
        check(bool(answer) and json.loads(answer) == peer.identity, f"{peer} answers that it is {answer!r}")
        return


def main() -> None:
    """Meet everybody, then end, or stay like a server that never ends."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--kind", required=True)
    parser.add_argument("--group", required=True)
    parser.add_argument("--sizes", required=True, type=json.loads)
    parser.add_argument("--slots", type=int, default=0)
    parser.add_argument("--stay", default="", help="the role that never ends by itself")
    parser.add_argument("--linger", type=float, default=0.0, help="seconds to go on after all peers are met")
    given = parser.parse_args()
    sizes: dict[str, Any] = given.sizes
    contract = CONTRACTS[given.kind](Manifest(given.kind, given.group, sizes, given.slots))
    print(f"{contract.identity} meets {len(contract.peers)} and waits for {len(contract.callers)}", flush=True)
    meeting, deadline = Meeting(contract), time.monotonic() + PATIENCE
    if contract.port:
        meeting.listen()
    for word in ("hello", "goodbye"):
        for peer in contract.peers:
            tell(word, peer, contract, deadline)
    meeting.wait()
    print("met everybody", flush=True)
    time.sleep(given.linger)
    if contract.identity.split()[0] == given.stay:
        signal.pause()


if __name__ == "__main__":
    try:
        main()
    except (Violation, KeyError, ValueError) as problem:
        print(f"probe failed: {problem!r}", flush=True)
        sys.exit(1)
