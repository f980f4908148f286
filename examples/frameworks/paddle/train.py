"""DataParallel on CPUs, configured by the PADDLE_* environment variables."""

import os
import socket
import time

import paddle
import paddle.distributed as dist

STEPS = 100
PATIENCE = 300  # seconds to wait for the names of the trainers


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


wait_for_names(os.environ["PADDLE_TRAINER_ENDPOINTS"])
paddle.set_device("cpu")
dist.init_parallel_env()
rank, world = dist.get_rank(), dist.get_world_size()

paddle.seed(rank)
features = paddle.randn([256, 4])
target = features @ paddle.to_tensor([[1.0], [-2.0], [0.5], [3.0]])

model = paddle.DataParallel(paddle.nn.Linear(4, 1))
optimizer = paddle.optimizer.SGD(learning_rate=0.1, parameters=model.parameters())
for step in range(1, STEPS + 1):
    loss = paddle.nn.functional.mse_loss(model(features), target)
    loss.backward()
    optimizer.step()
    optimizer.clear_grad()
    if rank == 0 and step % 25 == 0:
        print(f"pliant: step={step} total={STEPS} loss={float(loss):.2g}", flush=True)

if rank == 0:
    print(f"trained to loss {float(loss):.2g} by {world} processes")
assert float(loss) < 1e-4, float(loss)
dist.barrier()
