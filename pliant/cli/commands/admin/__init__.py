"""Subcommands for cluster administrators and for the command line itself."""
