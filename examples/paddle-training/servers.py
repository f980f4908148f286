"""Asynchronous training with parameter servers and trainers that join and leave; each trainer claims the next shard.

TRAINING_ROLE selects the role: server or trainer. All replicas share the folder STATE.
"""

import fcntl
import os
import shutil
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import paddle
from paddle.distributed import fleet

SHARDS = int(os.environ.get("SHARDS", "160"))
PAUSE = float(os.environ.get("PAUSE", "0"))
"""Seconds after each shard; gives time to resize the job."""
STATE = Path(os.environ.get("STATE", "/state"))
TODO, DONE, OPEN, MODEL = STATE / "todo", STATE / "done", STATE / "open", STATE / "model"
SAMPLES = 64
PATIENCE = 300  # seconds to wait for the names of the servers


def samples(number: int) -> tuple[np.ndarray, np.ndarray]:
    """Return data that depends only on the number, with noise."""
    chance = np.random.default_rng(number)
    x = chance.normal(size=(SAMPLES, 8))
    y = np.sin(x[:, :1]) + 0.5 * x[:, 1:2] - 0.5 * np.tanh(x[:, 2:3]) + 0.1 * chance.normal(size=(SAMPLES, 1))
    return x.astype("float32"), y.astype("float32")


def lay_out() -> None:
    """Write all shards, and delete the progress of previous servers."""
    shutil.rmtree(DONE, ignore_errors=True)
    TODO.mkdir(exist_ok=True)
    for number in range(SHARDS):
        rows = np.hstack(samples(number))
        lines = (f"8 {' '.join(map(str, row[:8]))} 1 {row[8]}\n" for row in rows)
        (TODO / f"{number:04}").write_text("".join(lines))
    DONE.mkdir()


def claims() -> Iterator[Path]:
    """Claim shards one at a time until all shards are processed.

    A claim is a lock on the file of the shard: the kernel releases the lock when the process exits.
    """
    while left := sorted(TODO.iterdir()):
        for shard in left:
            try:
                with shard.open() as file:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    if shard.exists():  # otherwise another trainer has just finished it
                        yield shard
            except (FileNotFoundError, BlockingIOError):
                continue
        time.sleep(0.1)  # other trainers hold the remaining shards; retry in case one fails


class Trainer:
    """The model in one trainer."""

    def __init__(self) -> None:
        paddle.enable_static()
        paddle.seed(1)
        self.features = paddle.static.data("features", [None, 8], "float32")
        self.target = paddle.static.data("target", [None, 1], "float32")
        hidden = paddle.static.nn.fc(self.features, 16, activation="tanh")
        self.guess = paddle.static.nn.fc(hidden, 1)
        self.loss = paddle.mean(paddle.nn.functional.square_error_cost(self.guess, self.target))
        self.judge = paddle.static.default_main_program().clone(for_test=True)
        self.executor = paddle.static.Executor(paddle.CPUPlace())

    def join(self) -> None:
        """Synchronize with the servers: the first trainer initializes new servers, and the others pull the model."""
        self.executor.run(paddle.static.default_startup_program())
        if OPEN.exists():
            os.environ["TEST_MODE"] = "1"  # a restarted first trainer pulls the model, too
        elif fleet.is_first_worker():
            lay_out()
        while not (fleet.is_first_worker() or OPEN.exists()):
            time.sleep(0.1)  # the first trainer writes the shards
        fleet.init_worker()
        OPEN.touch()

    def learn(self, shard: Path) -> None:
        """Train on one shard: pull the weights from the servers and push the gradients."""
        data = paddle.distributed.QueueDataset()
        data.init(batch_size=SAMPLES, thread_num=1, pipe_command="cat", use_var=[self.features, self.target])
        data.set_filelist([str(shard)])
        self.executor.train_from_dataset(self.loss.block.program, data)
        shard.rename(DONE / shard.name)

    def train(self) -> int:
        """Train on shards until none is left or SIGTERM arrives; return their number."""
        leaving: list[bool] = []
        signal.signal(signal.SIGTERM, lambda *_: leaving.append(True))
        mine = 0
        for mine, shard in enumerate(claims(), 1):
            self.learn(shard)
            time.sleep(PAUSE)
            if fleet.is_first_worker() and mine % 10 == 0:
                print(f"pliant: step={len(list(DONE.iterdir()))} total={SHARDS}", flush=True)
            if leaving:
                break
        return mine

    def verdict(self) -> float:
        """Return the loss on the test data."""
        fleet.save_inference_model(self.executor, str(MODEL), ["features"], [self.guess])
        pairs = [samples(10**6 + number) for number in range(64)]
        x, y = (np.concatenate(part) for part in zip(*pairs, strict=True))
        (seen,) = self.executor.run(self.judge, feed={"features": x, "target": y}, fetch_list=[self.loss.name])
        return float(np.mean(seen))


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
    """Run a server or a trainer."""
    wait_for_names(os.environ["PADDLE_PSERVERS_IP_PORT_LIST"])
    os.chdir(tempfile.mkdtemp())  # Paddle writes files to the working directory
    trainer = Trainer()
    fleet.init(fleet.PaddleCloudRoleMaker())
    strategy = fleet.DistributedStrategy()
    strategy.a_sync = True
    fleet.distributed_optimizer(paddle.optimizer.SGD(learning_rate=0.1), strategy).minimize(trainer.loss)
    if fleet.is_server():
        OPEN.unlink(missing_ok=True)  # new servers are not initialized
        fleet.init_server()
        fleet.run_server()
        sys.exit()

    trainer.join()
    trainer_name = f"trainer {fleet.worker_index()} of {fleet.worker_num()}"
    print(f"{trainer_name} starts, {len(list(TODO.iterdir()))} shards are left", flush=True)
    mine = trainer.train()
    print(f"trainer {fleet.worker_index()} processed {mine} shards", flush=True)
    if fleet.is_first_worker():
        loss, done = trainer.verdict(), len(list(DONE.iterdir()))
        print(f"pliant: step={done} total={SHARDS} loss={loss:.4f}", flush=True)
        print(f"trained to loss {loss:.4f} with {done} shards", flush=True)
    fleet.stop_worker()


main()
