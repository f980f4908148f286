"""The node agent: a child process of the cluster that runs pods in Linux namespaces and exits with its parent."""
