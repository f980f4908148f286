"""The node agent: a small child process that keeps pods in namespaces of its own and dies with its parent."""
