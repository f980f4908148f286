"""Access to a cluster: select it, connect, and find, read, create, update and wait for objects."""
