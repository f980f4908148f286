"""The OpenAPI documents of the served kinds, in version 3 and version 2.

Documents are rendered when a client asks for them. Definitions of built-in kinds are those that Kubernetes publishes,
without descriptions; `scripts/update-openapi` generates the data file. Definitions of custom kinds are made from their
schemas.
"""
