"""Options, manifests and other input files: parse and check them."""
