"""Subcommands that work on this machine: run jobs, manage the local cluster, simulate."""
