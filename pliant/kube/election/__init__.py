"""Leader election by a Lease, and the fence that stops a leader whose lease has expired."""
