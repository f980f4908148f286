"""Subcommands for jobs on any cluster."""
