"""Pure functions that decide the next scale action of a job."""
