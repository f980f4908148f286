"""The HTTP API that the members of a job call, and the state behind it."""
