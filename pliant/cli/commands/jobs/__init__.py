"""Subcommands about jobs, on any cluster."""
