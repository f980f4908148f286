"""Logistic regression over shards: any number of workers train one model, which the worker of rank 0 stores."""

from __future__ import annotations

import json
import math
import random
import threading
import time
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from pliant import elastic

RECORDS, SHARD, EPOCHS, FEATURES, RATE = 40_000, 400, 30, 12, 0.02
TRUTH = [math.sin(number + 1) * 2 for number in range(FEATURES)]
PORT = 3333

weights, lock = [0.0] * FEATURES, threading.Lock()


class Model(BaseHTTPRequestHandler):
    """Adds the update of a worker to the weights, and returns the weights."""

    def do_POST(self) -> None:
        learned = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with lock:
            weights[:] = [old + new for old, new in zip(weights, learned, strict=True)]
            body = json.dumps(weights).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Do not log requests."""


def record(number: int) -> tuple[list[float], float]:
    """Return one record of the data set: features and label."""
    chance = random.Random(number)
    features = [chance.gauss(0, 1) for _ in range(FEATURES)]
    return features, float(sum(map(float.__mul__, TRUTH, features)) > 0)


def guess(model: list[float], features: list[float]) -> float:
    """Return the predicted probability of label 1."""
    return 1 / (1 + math.exp(-max(-30.0, min(30.0, sum(map(float.__mul__, model, features))))))


def learn(model: list[float], start: int, end: int) -> list[float]:
    """Return the model after one pass over these records."""
    model = list(model)
    for features, answer in map(record, range(start, end)):
        step = RATE * (answer - guess(model, features))
        model = [old + step * feature for old, feature in zip(model, features, strict=True)]
    return model


def exchange(job: elastic.Job, learned: list[float]) -> list[float]:
    """Send an update to the current worker of rank 0, and return the model."""
    body = json.dumps(learned).encode()
    while True:
        members = job.membership().members
        hosts = [member.address for member in members if member.group == "worker" and member.rank == 0]
        host = f"127.0.0.1:{PORT}" if job.rank == 0 or not hosts else hosts[0]
        try:
            with urllib.request.urlopen(f"http://{host}/", body, timeout=5) as answer:
                return list(json.load(answer))
        except OSError:
            time.sleep(0.5)  # the worker of rank 0 is being replaced


def main() -> None:
    """Train until all shards are processed."""
    job = elastic.join()
    if job.rank == 0:
        threading.Thread(target=ThreadingHTTPServer(("", PORT), Model).serve_forever, daemon=True).start()
    model, done = exchange(job, [0.0] * FEATURES), 0
    for shard in job.shards("train", size=RECORDS, shard_size=SHARD, epochs=EPOCHS, shuffle=1):
        after = learn(model, shard.start, shard.end)
        model = exchange(job, [new - old for old, new in zip(model, after, strict=True)])
        done += 1
        job.beat(step=done)
        if done % 250 == 0:
            print(f"worker {job.rank}: {done} shards, epoch {shard.epoch}", flush=True)
    test = [record(RECORDS + number) for number in range(2000)]
    right = sum((guess(model, features) > 0.5) == (answer > 0.5) for features, answer in test)
    print(f"worker {job.rank} learned {done} shards; accuracy on new records: {100 * right / len(test):.1f} %")
    if job.rank == 0:
        time.sleep(2)  # other workers may still send requests


if __name__ == "__main__":
    main()
