"""Asynchronous SGD with fleet: trainers pull the model from servers and push gradients; TRAINING_ROLE is the role."""

import os
import socket
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import paddle
from paddle.distributed import fleet

STEPS, GOOD = 1000, 1e-6
PATIENCE = 300  # seconds to wait for the names of the servers
WEIGHTS = np.array([[1.0], [-2.0], [0.5], [3.0]], "float32")


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


wait_for_names(os.environ["PADDLE_PSERVERS_IP_PORT_LIST"])
os.chdir(tempfile.mkdtemp())  # Paddle writes files to the working directory
paddle.enable_static()
features = paddle.static.data("features", [None, 4], "float32")
target = paddle.static.data("target", [None, 1], "float32")
guess = paddle.static.nn.fc(features, 1)
loss = paddle.mean(paddle.nn.functional.square_error_cost(guess, target))
parameters, scope = paddle.static.default_main_program().all_parameters(), paddle.static.global_scope()

fleet.init(fleet.PaddleCloudRoleMaker())
strategy = fleet.DistributedStrategy()
strategy.a_sync = True
fleet.distributed_optimizer(paddle.optimizer.SGD(learning_rate=0.02), strategy).minimize(loss)
if fleet.is_server():
    fleet.init_server()
    fleet.run_server()
    sys.exit()

executor = paddle.static.Executor(paddle.CPUPlace())
executor.run(paddle.static.default_startup_program())
fleet.init_worker()
chance = np.random.default_rng(fleet.worker_index())
everything = chance.normal(size=(1024, 4)).astype("float32")
# Each trainer uses only some of the features: only the model on the servers, which combines all, fits all data.
mine = (np.arange(4) % fleet.worker_num() == fleet.worker_index()).astype("float32")
for step in range(1, STEPS + 1):
    x = chance.normal(size=(512, 4)).astype("float32") * mine
    lines = (f"4 {' '.join(map(str, row))} 1 {y[0]}\n" for row, y in zip(x, x @ WEIGHTS, strict=True))
    Path("data").write_text("".join(lines))
    data = paddle.distributed.QueueDataset()
    data.init(batch_size=64, thread_num=1, pipe_command="cat", use_var=[features, target])
    data.set_filelist(["data"])
    executor.train_from_dataset(loss.block.program, data)  # `executor.run` would not pull from the servers
    weight, bias = (np.array(scope.find_var(each.name).get_tensor()) for each in parameters)
    seen = float(np.mean((everything @ (weight - WEIGHTS) + bias) ** 2))
    if fleet.is_first_worker() and step % 20 == 0:
        print(f"pliant: step={step} loss={seen:.2g}", flush=True)
    if seen < GOOD:
        break

fleet.stop_worker()
if fleet.is_first_worker():
    print(f"trained to loss {seen:.2g} by {fleet.worker_num()} trainers and {fleet.server_num()} servers")
assert seen < GOOD, seen
