"""Data-parallel SGD in plain Python, by the variables that Paddle reads; it goes on where it was, at any size.

The data is cut into shards once and for all, and each trainer has its part of them. Trainer 0 adds gradients up in
the order of the shards, so that the number of trainers changes nothing about the result, and saves its state.
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
PAUSE = float(os.environ.get("PAUSE", "0.02"))  # what a larger model would take for a shard, beside our sums
SHARDS, RATE, TRUTH = 8, 0.5, [1.5, -2.0, 0.7, 3.0]


def shard(number: int) -> list[tuple[list[float], bool]]:
    """Points, and whether each lies on the far side of the plane to be learnt; the same wherever it is made."""
    chance = random.Random(number)
    points = [[chance.gauss(0, 1) for _ in TRUTH] for _ in range(100)]
    sides = [sum(t * x for t, x in zip(TRUTH, point, strict=True)) + chance.gauss(0, 0.5) > 0 for point in points]
    return list(zip(points, sides, strict=True))


MINE = {number: shard(number) for number in range(RANK, SHARDS, NUMBER)}


def gradient(number: int, weights: list[float]) -> list[float]:
    """The gradient of logistic regression over one shard, and its loss at the end."""
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
    """Trainer 0: begin where the last one ended, and take a step along the average of all gradients."""
    step, weights = json.loads(STATE.read_text()) if STATE.exists() else (0, [0.0] * len(TRUTH))
    print(f"{NUMBER} trainers, from step {step} on", flush=True)
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
    """Whole or not at all: trainers are ended at any moment."""
    draft = STATE.with_suffix(".new")
    draft.write_text(json.dumps([step, weights]))
    draft.replace(STATE)


def follow() -> None:
    """Any other trainer: compute its part of each step."""
    host, _, port = ENDPOINTS[0].rpartition(":")
    while True:
        try:
            link = socket.create_connection((host, int(port))).makefile("rw")
            break
        except OSError:
            time.sleep(0.05)  # trainer 0 is not up yet, or its name is not known yet
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
