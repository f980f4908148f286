"""What things are: frozen data shared by everything that decides."""
