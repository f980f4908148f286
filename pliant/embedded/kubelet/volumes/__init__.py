"""The files of a pod: volumes, mounts and service account tokens."""
