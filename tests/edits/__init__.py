"""Edits of jobs: what each field does when it is edited, and whether a job is looked after whatever is edited."""
