"""MultiWorkerMirroredStrategy: each worker has its own data and all weights; TF_CONFIG lists the workers."""

import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
os.environ["CUDA_VISIBLE_DEVICES"] = "-1"

import tensorflow as tf

STEPS = 80

strategy = tf.distribute.MultiWorkerMirroredStrategy()
resolver = strategy.cluster_resolver
is_first = resolver.task_type in (None, "chief") or resolver.task_id == 0
tf.random.set_seed(resolver.task_id or 0)
with strategy.scope():
    weights = tf.Variable(tf.zeros([4, 1]))


@tf.function
def step() -> tf.Tensor:
    def each() -> tf.Tensor:
        features = tf.random.normal([256, 4])
        target = features @ tf.constant([[1.0], [-2.0], [0.5], [3.0]])
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((features @ weights - target) ** 2)
        gradient = tape.gradient(loss, weights)
        context = tf.distribute.get_replica_context()
        weights.assign_sub(0.1 * context.all_reduce(tf.distribute.ReduceOp.MEAN, gradient))
        return loss

    return strategy.reduce(tf.distribute.ReduceOp.MEAN, strategy.run(each), axis=None)


for number in range(1, STEPS + 1):
    loss = float(step())
    if is_first and number % 20 == 0:
        print(f"pliant: step={number} total={STEPS} loss={loss:.2g}", flush=True)

print(f"trained to loss {loss:.2g} by {strategy.num_replicas_in_sync} workers")
assert strategy.num_replicas_in_sync == 2
assert loss < 1e-4, loss
