"""Informers and the object stores that they keep in sync with the API server."""
