"""Data-parallel gradient descent: every process has a part of the data and applies the mean gradient."""

import os

import jax
import jax.numpy as jnp
from jax.experimental import multihost_utils

RANK, WORLD = int(os.environ["JAX_PROCESS_ID"]), int(os.environ["JAX_NUM_PROCESSES"])
STEPS, RATE = 100, 0.1

# The coordinator's address is taken from JAX_COORDINATOR_ADDRESS.
jax.distributed.initialize(num_processes=WORLD, process_id=RANK, cluster_detection_method="deactivate")
assert jax.process_count() == WORLD

features = jax.random.normal(jax.random.key(RANK), (256, 4))
target = features @ jnp.array([1.0, -2.0, 0.5, 3.0])


@jax.jit
def step(weights: jax.Array) -> tuple[jax.Array, jax.Array]:
    return jax.value_and_grad(lambda w: jnp.mean((features @ w - target) ** 2))(weights)


weights = jnp.zeros(4)
for number in range(1, STEPS + 1):
    losses, gradients = multihost_utils.process_allgather(step(weights))
    weights -= RATE * gradients.mean(axis=0)
    loss = float(losses.mean())
    if RANK == 0 and number % 25 == 0:
        print(f"pliant: step={number} total={STEPS} loss={loss:.2g}", flush=True)

if RANK == 0:
    print(f"trained to loss {loss:.2g} by {WORLD} processes")
assert loss < 1e-4, loss
