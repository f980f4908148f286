"""The embedded cluster, part by part."""
