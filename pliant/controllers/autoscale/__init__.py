"""The autoscale controller: builds cluster snapshots, runs a policy, publishes size recommendations."""
