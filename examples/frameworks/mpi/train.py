"""Data-parallel gradient descent over MPI: Allreduce sums the gradients of all processes."""

import socket

import numpy as np
from mpi4py import MPI

STEPS, RATE = 100, 0.1
world = MPI.COMM_WORLD
rank, size = world.Get_rank(), world.Get_size()
print(f"rank {rank} of {size} on {socket.gethostname()}", flush=True)

features = np.random.default_rng(rank).normal(size=(256, 4))
target = features @ np.array([1.0, -2.0, 0.5, 3.0])
weights = np.zeros(4)
for step in range(1, STEPS + 1):
    error = features @ weights - target
    own = np.append(2 * features.T @ error / len(error), np.mean(error**2))
    total = np.empty_like(own)
    world.Allreduce(own, total)
    weights -= RATE * total[:-1] / size
    loss = total[-1] / size
    if rank == 0 and step % 25 == 0:
        print(f"pliant: step={step} total={STEPS} loss={loss:.2g}", flush=True)

if rank == 0:
    print(f"trained to loss {loss:.2g} by {size} processes")
assert loss < 1e-4, loss
