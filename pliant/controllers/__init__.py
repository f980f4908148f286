"""The shell: read, decide, apply. No policy lives here."""
