"""Pure functions that decide what to do next about a job from its spec, its state and what is observed."""
