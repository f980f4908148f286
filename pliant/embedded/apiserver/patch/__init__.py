"""Patch formats: JSON patch, merge patch, strategic merge patch, and server-side apply with managed fields."""
