"""HTTP: the HTTPS server, the in-process transport, decoding of requests, encoding of responses and errors."""
