"""Which nodes accept a pod: resource requests, node affinity, taints and tolerations."""
