"""The kinds that the API server serves: built-in kinds, CRDs, discovery, OpenAPI and table columns."""
