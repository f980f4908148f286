"""Data-parallel SGD in plain Python with Paddle's environment variables; it continues from its checkpoint at any size.

The division of the data into shards is fixed, and each trainer has some of the shards. Trainer 0 adds the gradients in
the order of the shards, so the result does not depend on the number of trainers, and saves checkpoints.
"""

import json
import math
import os
import random
import socket
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

ENDPOINTS = os.environ["PADDLE_TRAINER_ENDPOINTS"].split(",")
RANK, NUMBER = int(os.environ["PADDLE_TRAINER_ID"]), int(os.environ["PADDLE_TRAINERS_NUM"])
STATE = Path(os.environ.get("CHECKPOINTS", "/state")) / "state.json"
STEPS = int(os.environ.get("STEPS", "100"))
PAUSE = float(os.environ.get("PAUSE", "0.02"))  # simulated computation time per shard, in seconds
SHARDS, RATE, TRUTH = 8, 0.5, [1.5, -2.0, 0.7, 3.0]
PATIENCE = 300  # seconds to wait for trainer 0


def shard(number: int) -> list[tuple[list[float], bool]]:
    """Return random points with labels: the side of a plane, with noise. The shard is the same in every trainer."""
    chance = random.Random(number)
    points = [[chance.gauss(0, 1) for _ in TRUTH] for _ in range(100)]
    sides = [sum(t * x for t, x in zip(TRUTH, point, strict=True)) + chance.gauss(0, 0.5) > 0 for point in points]
    return list(zip(points, sides, strict=True))


MINE = {number: shard(number) for number in range(RANK, SHARDS, NUMBER)}


def gradient(number: int, weights: list[float]) -> list[float]:
    """Return the gradient of logistic regression over one shard; the last element is the loss."""
    time.sleep(PAUSE)
    slope, loss, data = [0.0] * len(weights), 0.0, MINE[number]
    for point, label in data:
        guess = 1 / (1 + math.exp(-sum(w * x for w, x in zip(weights, point, strict=True))))
        loss -= math.log(max(1e-9, guess if label else 1 - guess))
        slope = [s + (guess - label) * x for s, x in zip(slope, point, strict=True)]
    return [each / len(data) for each in (*slope, loss)]


def own_gradients(weights: list[float]) -> dict[str, list[float]]:
    return {str(number): gradient(number, weights) for number in MINE}


def lead() -> None:
    """Run trainer 0: continue from the checkpoint, and update the weights with the average gradient of each step."""
    step, weights = json.loads(STATE.read_text()) if STATE.exists() else (0, [0.0] * len(TRUTH))
    print(f"{NUMBER} trainers continue after step {step}", flush=True)
    with socket.create_server(("", int(ENDPOINTS[0].rpartition(":")[2]))) as server:
        links = [server.accept()[0].makefile("rw") for _ in range(NUMBER - 1)]
    while step < STEPS:
        tell(links, weights)
        found = own_gradients(weights)
        for link in links:
            found |= heard(link)
        *slopes, losses = zip(*(found[str(number)] for number in range(SHARDS)), strict=True)
        weights = [w - RATE * sum(slope) / SHARDS for w, slope in zip(weights, slopes, strict=True)]
        step += 1
        if step % 10 == 0:
            print(f"pliant: step={step} total={STEPS} loss={sum(losses) / SHARDS:.12f}", flush=True)
            save(step, weights)
    tell(links, None)


def save(step: int, weights: list[float]) -> None:
    """Write the checkpoint atomically: a trainer may be terminated at any time."""
    draft = STATE.with_suffix(".new")
    draft.write_text(json.dumps([step, weights]))
    draft.replace(STATE)


def follow() -> None:
    """Run any other trainer: compute the gradients of its shards in each step."""
    host, _, port = ENDPOINTS[0].rpartition(":")
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            link = socket.create_connection((host, int(port))).makefile("rw")
            break
        except OSError as problem:
            if time.monotonic() > deadline:
                raise SystemExit(f"no trainer 0 at {ENDPOINTS[0]} within {PATIENCE} s: {problem}") from None
            time.sleep(0.05)  # trainer 0 is not ready, or its name does not resolve yet
    while (weights := heard(link)) is not None:
        tell([link], own_gradients(weights))


def tell(links: Sequence[IO[str]], message: object) -> None:
    for link in links:
        link.write(json.dumps(message) + "\n")
        link.flush()


def heard(link: IO[str]) -> Any:
    return json.loads(link.readline())


if __name__ == "__main__":
    lead() if RANK == 0 else follow()
