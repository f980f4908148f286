"""The Python API: runs and controls jobs from scripts, notebooks and tests."""
