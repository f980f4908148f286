"""Streaming pod subresources: log, exec, attach and portforward, over WebSocket and SPDY."""
