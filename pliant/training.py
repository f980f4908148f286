"""For training programs of an ElasticJob: work, peers and heartbeats, from the job's master.

It needs nothing but Python, so that this one file can be copied into an image.
"""
