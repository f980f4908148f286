"""The planner that all policies share: admits pending pods, then distributes the remaining capacity."""
