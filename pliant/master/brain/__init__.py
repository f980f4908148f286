"""What a job needs next, decided in data: no clock, no chance, nothing outside of the arguments."""
