"""Gradient descent with the weights on a server; the scheduler and the server run the same program."""

import os

import mxnet as mx  # in the scheduler and the server, this import runs the role and exits
from mxnet import autograd, nd

STEPS = 60
store = mx.kv.create("dist_sync")
rank = store.rank

mx.random.seed(rank)
features = nd.random.normal(shape=(256, 4))
target = nd.dot(features, nd.array([[1.0], [-2.0], [0.5], [3.0]]))

weights = nd.zeros((4, 1))
weights.attach_grad()
store.init("weights", weights)
store.set_optimizer(mx.optimizer.SGD(learning_rate=0.05))

for step in range(1, STEPS + 1):
    store.pull("weights", out=weights)
    with autograd.record():
        loss = ((nd.dot(features, weights) - target) ** 2).mean()
    loss.backward()
    store.push("weights", weights.grad)
    if rank == 0 and step % 20 == 0:
        print(f"pliant: step={step} total={STEPS} loss={loss.asscalar():.2g}", flush=True)

loss = float(loss.asscalar())
if rank == 0:
    print(f"trained to loss {loss:.2g} by {store.num_workers} workers as {os.environ['DMLC_ROLE']}")
assert loss < 1e-3, loss
