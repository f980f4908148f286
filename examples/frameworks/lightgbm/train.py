"""Boosted trees over LightGBM sockets: WORKER_ADDRS and WORKER_PORT are the list of machines."""

import os
import time
from socket import gethostbyname

import lightgbm as lgb
import numpy as np

RANK, PORT = int(os.environ["RANK"]), os.environ["WORKER_PORT"]
HOSTS = os.environ["WORKER_ADDRS"].split(",")
ROUNDS = 60
PATIENCE = 300  # seconds to wait for the name of a worker


def address(host: str) -> str:
    """Return the IP address that LightGBM requires; wait until the host name resolves."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        try:
            return gethostbyname(host)
        except OSError:
            time.sleep(0.2)
    raise SystemExit(f"{host} does not resolve after {PATIENCE} s")


def report(seen: lgb.callback.CallbackEnv) -> None:
    if RANK == 0 and (seen.iteration + 1) % 20 == 0:
        print(
            f"pliant: step={seen.iteration + 1} total={ROUNDS} loss={seen.evaluation_result_list[0][2]:.4f}", flush=True
        )


chance = np.random.default_rng(RANK)
features = chance.normal(size=(2000, 5))
target = features @ np.array([1.0, -2.0, 0.5, 3.0, 0.0]) + np.sin(features[:, 4])
settings = {
    "objective": "regression",
    "learning_rate": 0.2,
    "tree_learner": "data",
    "num_machines": len(HOSTS),
    "machines": ",".join(f"{address(host)}:{PORT}" for host in HOSTS),
    "local_listen_port": int(PORT),
    "time_out": 5,
    "num_threads": 1,
    "verbosity": -1,
}
data = lgb.Dataset(features, target)
history = {}
callbacks = [lgb.record_evaluation(history), report]
lgb.train(settings, data, ROUNDS, valid_sets=[data], valid_names=["train"], callbacks=callbacks)
loss = history["train"]["l2"][-1]
if RANK == 0:
    print(f"trained to loss {loss:.4f} by {len(HOSTS)} workers")
assert loss < 0.5, loss
