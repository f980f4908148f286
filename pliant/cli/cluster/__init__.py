"""Access to any cluster: choose and connect to it, find jobs, read, create, change and await objects."""
