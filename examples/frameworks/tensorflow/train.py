"""ParameterServerStrategy: TF_CONFIG makes each replica a chief, worker or parameter server."""

import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
os.environ["CUDA_VISIBLE_DEVICES"] = "-1"

import tensorflow as tf

STEPS = 80

cluster = tf.distribute.cluster_resolver.TFConfigClusterResolver(rpc_layer="grpc")
if cluster.task_type in ("worker", "ps"):
    server = tf.distribute.Server(
        cluster.cluster_spec(), job_name=cluster.task_type, task_index=cluster.task_id, protocol="grpc", start=True
    )
    server.join()

strategy = tf.distribute.ParameterServerStrategy(cluster)
coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
with strategy.scope():
    weights = tf.Variable(tf.zeros([4, 1]))


@tf.function
def step() -> tf.Tensor:
    features = tf.random.normal([256, 4])
    target = features @ tf.constant([[1.0], [-2.0], [0.5], [3.0]])
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((features @ weights - target) ** 2)
    weights.assign_sub(0.1 * tape.gradient(loss, weights))
    return loss


for number in range(1, STEPS + 1):
    loss = coordinator.schedule(step)
    if number % 20 == 0:
        coordinator.join()
        print(f"pliant: step={number} total={STEPS} loss={loss.fetch():.2g}", flush=True)

loss = float(loss.fetch())
print(f"trained to loss {loss:.2g} by {len(cluster.cluster_spec().as_dict()['worker'])} workers")
assert loss < 1e-4, loss
