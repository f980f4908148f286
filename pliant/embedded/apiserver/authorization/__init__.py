"""Which user may send which request: RBAC, the rights of nodes, reviews of access and impersonation."""
