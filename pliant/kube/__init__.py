"""A small Kubernetes client: transport, informers, leader election. It does not depend on jobs."""
