"""What expressions cost: estimated from the schema when they are created, and counted when they are evaluated."""
