"""The lifecycle of one pod: its worker, containers, restarts, hooks, events and status."""
