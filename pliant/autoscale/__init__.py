"""Who gets how much of a cluster: pure policies over a plain picture of it."""
