"""The HTTPS server, the in-process transport, decoding of requests, and encoding of responses and errors."""
