"""Programs with the client libraries that people use, against `pliant up`."""
