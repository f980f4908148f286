"""Subcommands for cluster administrators, and about the command line itself."""
