"""What pods find on their network: names, services and a way out, all served by the parent."""
