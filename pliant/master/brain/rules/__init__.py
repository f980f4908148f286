"""One module per rule that may change the size or the members of a job."""
