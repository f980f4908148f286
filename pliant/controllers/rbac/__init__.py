"""Permissions, roles and bindings of the operator, of users, and of job masters."""
