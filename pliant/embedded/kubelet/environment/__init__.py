"""What a container is given: environment variables, ConfigMaps and Secrets, and network settings."""
