"""The asynchronous Python API: the functions and classes of `pliant`, as coroutines and async iterators.

from pliant import aio

job = await aio.run("train.py", workers=4)
async with aio.cluster(nodes=2) as cluster:
    job = await cluster.submit("job.yaml")
    async for update in job.follow():
        print(update)
"""

from pliant.api.async_cluster import AsyncTemporaryCluster as Cluster
from pliant.api.async_functions import cluster, get, list_jobs, run, submit, submit_all
from pliant.api.async_job import AsyncJobHandle as Job

__all__ = ["Cluster", "Job", "cluster", "get", "list_jobs", "run", "submit", "submit_all"]
