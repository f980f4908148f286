"""What happened to a job over time."""
