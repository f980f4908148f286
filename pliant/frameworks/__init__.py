"""One training framework per file: which environment and ports a rank needs."""
