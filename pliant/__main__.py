"""Entry point of `python -m pliant`."""

from pliant.cli.main import main

main()
