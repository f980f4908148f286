"""DataParallel on CPUs, configured by the PADDLE_* environment variables."""

import paddle
import paddle.distributed as dist

STEPS = 100

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
