"""Rules and policies in the Common Expression Language."""
