"""How a controller runs: clock, queue, back-off and the loop. Knows no job."""
