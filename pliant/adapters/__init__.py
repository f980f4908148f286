"""`pliant.elastic` in callbacks and checkpoints of frameworks; each module can be copied beside `elastic.py`."""
