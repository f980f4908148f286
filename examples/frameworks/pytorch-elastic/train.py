"""Training that torchrun restarts when a worker joins or leaves; it continues from the last checkpoint."""

import os
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

STEPS = int(os.environ.get("STEPS", "240"))
SAVED = Path("/state/model.pt")

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
model = DistributedDataParallel(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
done = 0
if SAVED.exists():
    saved = torch.load(SAVED)
    done = saved["step"]
    model.load_state_dict(saved["model"])
if rank == 0:
    print(f"{world} processes continue after step {done}", flush=True)

for step in range(done + 1, STEPS + 1):
    features = torch.randn(256, 4)
    target = features @ torch.tensor([[1.0], [-2.0], [0.5], [3.0]])
    optimizer.zero_grad()
    loss = torch.nn.functional.mse_loss(model(features), target)
    loss.backward()
    optimizer.step()
    time.sleep(0.2)  # gives time to scale the job
    if rank == 0:
        torch.save({"step": step, "model": model.state_dict()}, SAVED.with_suffix(".new"))
        SAVED.with_suffix(".new").replace(SAVED)
        if step % 20 == 0:
            print(f"pliant: step={step} total={STEPS} loss={loss.item():.2g}", flush=True)

if rank == 0:
    print(f"trained to loss {loss.item():.2g} by {world} processes")
assert loss.item() < 1e-4, loss.item()
dist.barrier()
