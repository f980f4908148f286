"""A DDP trainer for torchrun with a fixed global batch: its loss does not depend on the number of workers."""

import json
import os
import time
from pathlib import Path

import torch  # type: ignore[import-not-found]
import torch.distributed as dist  # type: ignore[import-not-found]
from torch.nn.parallel import DistributedDataParallel  # type: ignore[import-not-found]

STEPS, PAUSE, BATCH = int(os.environ["STEPS"]), float(os.environ.get("PAUSE", "0.05")), 24
FOLDER = Path(os.environ["STATE_DIR"])
SAVED = FOLDER / "model.pt"


def log(what: str, **fields: object) -> None:
    with (FOLDER / "events.jsonl").open("a") as file:
        file.write(json.dumps({"t": time.monotonic(), "name": os.environ["MEMBER"], "what": what, **fields}) + "\n")


def main() -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1)).double()
    # Rank 0 writes the checkpoint of each step to a folder that all share.
    state = [torch.load(SAVED) if rank == 0 and SAVED.exists() else None]
    dist.broadcast_object_list(state, 0)
    done = 0
    if state[0]:
        done = state[0]["step"]
        model.load_state_dict(state[0]["model"])
    parallel = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(parallel.parameters(), lr=0.05)
    log("start", rank=rank, world=world, step=done)
    total = torch.zeros(())
    for step in range(done + 1, STEPS + 1):
        generator = torch.Generator().manual_seed(step)
        inputs = torch.randn(BATCH, 8, generator=generator, dtype=torch.float64)
        targets = inputs.sum(1, keepdim=True).sin()
        part = slice(rank * BATCH // world, (rank + 1) * BATCH // world)
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(parallel(inputs[part]), targets[part])
        loss.backward()
        optimizer.step()
        total = loss.detach().clone()
        dist.all_reduce(total)
        total /= world
        time.sleep(PAUSE)
        if rank == 0:
            torch.save({"step": step, "model": model.state_dict()}, FOLDER / "model.new")
            (FOLDER / "model.new").replace(SAVED)
            log("step", step=step, world=world, loss=total.item())
    log("done", rank=rank, loss=total.item())


if __name__ == "__main__":
    main()
