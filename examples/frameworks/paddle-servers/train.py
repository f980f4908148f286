"""Geo-SGD with fleet: trainers step by themselves and tell servers now and then; TRAINING_ROLE parts them."""

import numpy as np
import paddle
from paddle.distributed import fleet

STEPS = 400

paddle.enable_static()
features = paddle.static.data("features", [None, 4], "float32")
target = paddle.static.data("target", [None, 1], "float32")
guess = paddle.static.nn.fc(features, 1)
loss = paddle.mean(paddle.nn.functional.square_error_cost(guess, target))

role = fleet.PaddleCloudRoleMaker()
fleet.init(role)
strategy = fleet.DistributedStrategy()
strategy.a_sync = True
strategy.a_sync_configs = {"k_steps": 4}
fleet.distributed_optimizer(paddle.optimizer.SGD(learning_rate=0.02), strategy).minimize(loss)

if fleet.is_server():
    fleet.init_server()
    fleet.run_server()
else:
    executor = paddle.static.Executor(paddle.CPUPlace())
    executor.run(paddle.static.default_startup_program())
    fleet.init_worker()
    chance = np.random.default_rng(fleet.worker_index())
    for step in range(1, STEPS + 1):
        x = chance.normal(size=(64, 4)).astype("float32")
        y = x @ np.array([[1.0], [-2.0], [0.5], [3.0]], "float32")
        (seen,) = executor.run(feed={"features": x, "target": y}, fetch_list=[loss])
        seen = float(np.mean(seen))
        if fleet.is_first_worker() and step % 100 == 0:
            print(f"pliant: step={step} total={STEPS} loss={seen:.2g}", flush=True)
    fleet.stop_worker()
    if fleet.is_first_worker():
        print(f"trained to loss {seen:.2g} by {fleet.worker_num()} trainers and {fleet.server_num()} servers")
    assert seen < 1e-2, seen
