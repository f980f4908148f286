"""The connection to the node agent: its process, its channel, containers, exec sessions and their streams."""
