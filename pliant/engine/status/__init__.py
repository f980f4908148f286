"""Status of a job: phase, counts, messages and recorded failures."""
