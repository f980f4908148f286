"""Explain failures, waiting jobs, sizes and missing requirements, and suggest fixes."""
