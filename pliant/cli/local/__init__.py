"""Local clusters: their state directories, the daemon of `pliant up` and the session of `pliant run`."""
