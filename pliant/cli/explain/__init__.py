"""Explanations of failures, waiting jobs, group sizes and unmet requirements, with suggested fixes."""
