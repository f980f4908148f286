"""Charts as SVG, PNG and text."""
