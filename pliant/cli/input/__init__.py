"""Command-line options, manifests and trace files: parse and check them."""
