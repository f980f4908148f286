"""One container: its shim process, exec sessions, log files and resource usage."""
