"""The link to the node agent: its process, its channel, exec sessions and streams."""
