"""One module per group of API verbs or subresources: get, list, watch, writes, deletion, eviction, scale, metrics."""
