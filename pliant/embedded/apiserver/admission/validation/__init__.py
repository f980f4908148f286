"""Validation of built-in kinds beyond their schemas, with the field paths and reasons of kube-apiserver."""
