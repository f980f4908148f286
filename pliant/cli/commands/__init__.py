"""The subcommands of `pliant`, one module each."""
