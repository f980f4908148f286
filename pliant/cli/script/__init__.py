"""Runs Python scripts as jobs: their imports, their job, their options and their code."""
