"""The embedded API server: HTTP, handlers, admission, patches, authentication and garbage collection."""
