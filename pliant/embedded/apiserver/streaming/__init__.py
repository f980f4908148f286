"""Streaming pod subresources: log, exec, attach and port-forward, over WebSocket and SPDY."""
