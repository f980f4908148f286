"""What a container receives: environment variables, ConfigMaps and Secrets, and network settings."""
