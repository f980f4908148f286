"""The cluster on this machine: its state directory, its daemon, and the session of `pliant run`."""
