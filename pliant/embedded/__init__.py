"""A Kubernetes cluster in one process: API server, scheduler and a node that runs pods as processes."""
