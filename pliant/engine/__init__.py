"""Pure functions that decide the next actions for a job from its spec, its state and the observed cluster."""
