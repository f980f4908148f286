"""What to do: pure functions from what is wanted and what is seen to what to do next."""
