"""The embedded API server: requests, handlers, admission, patches, authentication, garbage collection."""
