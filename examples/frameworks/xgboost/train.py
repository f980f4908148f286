"""Distributed boosted trees: each replica has a third of the data."""

import os
import time
from socket import gethostbyname

import numpy as np
import xgboost as xgb
from xgboost import collective
from xgboost.tracker import RabitTracker

RANK, WORLD = int(os.environ["DMLC_TASK_ID"]), int(os.environ["DMLC_NUM_WORKER"])
HOST, PORT = os.environ["DMLC_TRACKER_URI"], int(os.environ["DMLC_TRACKER_PORT"])
ROUNDS = 30
PATIENCE = 300  # seconds to wait for the name of the tracker


class Report(xgb.callback.TrainingCallback):
    def after_iteration(self, model, epoch, evals_log):
        loss = evals_log["train"]["rmse"][-1]
        if RANK == 0 and (epoch + 1) % 10 == 0:
            print(f"pliant: step={epoch + 1} total={ROUNDS} loss={loss:.4f}", flush=True)
        return False


def address():
    """Return the address of the tracker; wait until its host name resolves."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        try:
            return gethostbyname(HOST)
        except OSError:
            time.sleep(0.2)
    raise SystemExit(f"{HOST} does not resolve after {PATIENCE} s")


tracker = None
if RANK == 0:
    tracker = RabitTracker(n_workers=WORLD, host_ip=address(), port=PORT, sortby="task")
    tracker.start()

random_source = np.random.default_rng(RANK)
features = random_source.normal(size=(1000, 5))
target = features @ np.array([1.0, -2.0, 0.5, 3.0, 0.0]) + np.sin(features[:, 4])

settings = {"dmlc_tracker_uri": address(), "dmlc_tracker_port": PORT, "dmlc_task_id": str(RANK), "dmlc_retry": 20}
with collective.CommunicatorContext(**settings):
    data = xgb.DMatrix(features, target)
    history = {}
    xgb.train(
        {"max_depth": 4, "eta": 0.3, "nthread": 1, "objective": "reg:squarederror"},
        data,
        ROUNDS,
        evals=[(data, "train")],
        evals_result=history,
        verbose_eval=False,
        callbacks=[Report()],
    )
    print(f"rank {collective.get_rank()} of {collective.get_world_size()}", flush=True)

loss = history["train"]["rmse"][-1]
if RANK == 0:
    tracker.wait_for()
    print(f"trained to loss {loss:.4f}")
assert loss < 0.8, loss
