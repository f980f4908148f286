"""Read specs: decoding with field errors, metadata, pod names, pod templates and quantities."""
