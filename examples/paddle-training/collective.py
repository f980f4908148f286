"""DataParallel with trainers that all restart after a resize and continue from the last checkpoint.

A step uses the same data for any number of trainers, so the weights do not depend on the number of trainers.
"""

import os
import signal
import socket
import time
from pathlib import Path

import numpy as np
import paddle
import paddle.distributed as dist

STEPS = int(os.environ.get("STEPS", "120"))
PAUSE = float(os.environ.get("PAUSE", "0"))
"""Seconds between steps; gives time to resize the job."""
STATE = Path(os.environ.get("STATE", "/state"))
SAVED, NEW = STATE / "model.pdparams", STATE / "new.pdparams"
PATIENCE = 300  # seconds to wait for the names of the trainers
BATCH = 96
"""Samples per step, divided among the trainers: a multiple of 2, 3 and 4."""


def batch(number: int) -> tuple[np.ndarray, np.ndarray]:
    """Return data that depends only on the number, with noise."""
    chance = np.random.default_rng(number)
    x = chance.normal(size=(BATCH, 8))
    y = np.sin(x[:, :1]) + 0.5 * x[:, 1:2] - 0.5 * np.tanh(x[:, 2:3]) + 0.1 * chance.normal(size=(BATCH, 1))
    return x.astype("float32"), y.astype("float32")


def wait_for_names(endpoints: str) -> None:
    """Wait until the names of all endpoints resolve: Paddle fails at once if one does not."""
    deadline = time.monotonic() + PATIENCE
    for endpoint in endpoints.split(","):
        host = endpoint.rpartition(":")[0]
        while True:
            try:
                socket.getaddrinfo(host, None)
                break
            except OSError as problem:
                if time.monotonic() > deadline:
                    raise SystemExit(f"{host} does not resolve after {PATIENCE} s: {problem}") from None
                time.sleep(0.2)


def main() -> None:
    """Train from the checkpoint to the last step."""
    # Exit immediately on SIGTERM: training continues from the checkpoint.
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    wait_for_names(os.environ["PADDLE_TRAINER_ENDPOINTS"])
    paddle.set_device("cpu")
    dist.init_parallel_env()
    rank, world = dist.get_rank(), dist.get_world_size()
    paddle.seed(1)
    model = paddle.nn.Sequential(paddle.nn.Linear(8, 16), paddle.nn.Tanh(), paddle.nn.Linear(16, 1))
    optimizer = paddle.optimizer.Adam(learning_rate=0.02, parameters=model.parameters())
    done = 0
    if SAVED.exists():
        saved = paddle.load(str(SAVED))
        done = saved["step"]
        model.set_state_dict(saved["model"])
        optimizer.set_state_dict(saved["optimizer"])
    print(f"trainer {rank} of {world} continues after step {done}", flush=True)

    shared = paddle.DataParallel(model)
    for step in range(done + 1, STEPS + 1):
        features, target = (paddle.to_tensor(each[rank::world]) for each in batch(step))
        loss = paddle.nn.functional.mse_loss(shared(features), target)
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        time.sleep(PAUSE)
        if rank == 0:
            state = {"step": step, "model": model.state_dict(), "optimizer": optimizer.state_dict()}
            paddle.save(state, str(NEW))
            NEW.replace(SAVED)
            if step % 10 == 0:
                print(f"pliant: step={step} total={STEPS} loss={float(loss):.4f}", flush=True)

    if rank == 0:
        pairs = [batch(10**6 + number) for number in range(40)]  # test data
        features, target = (paddle.to_tensor(np.concatenate(part)) for part in zip(*pairs, strict=True))
        loss = paddle.nn.functional.mse_loss(model(features), target)
        print(f"trained to loss {float(loss):.6f} by {world} trainers", flush=True)
    dist.barrier()


main()
