"""What is served: kinds, their schemas and columns, and how they are described to clients."""
