"""DistributedDataParallel on CPUs, configured by MASTER_ADDR, MASTER_PORT, RANK and WORLD_SIZE."""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

STEPS = 100

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()

torch.manual_seed(rank)
features = torch.randn(256, 4)
target = features @ torch.tensor([[1.0], [-2.0], [0.5], [3.0]])

model = DistributedDataParallel(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(1, STEPS + 1):
    optimizer.zero_grad()
    loss = torch.nn.functional.mse_loss(model(features), target)
    loss.backward()
    optimizer.step()
    if rank == 0 and step % 25 == 0:
        print(f"pliant: step={step} total={STEPS} loss={loss.item():.2g}", flush=True)

if rank == 0:
    print(f"trained to loss {loss.item():.2g} by {world} processes")
assert loss.item() < 1e-4, loss.item()
dist.barrier()
