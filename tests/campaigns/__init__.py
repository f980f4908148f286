"""Campaigns: the same misfortune again and again on real processes, counted. `python -m tests.campaigns --help`."""
