"""Subcommands for this machine: run jobs, manage the local cluster, simulate."""
