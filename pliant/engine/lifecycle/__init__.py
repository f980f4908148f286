"""How a job ends, is suspended and resumed, and its time limits."""
