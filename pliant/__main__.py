"""Lets `python -m pliant` do what the `pliant` command does."""

from pliant.cli.main import main

main()
