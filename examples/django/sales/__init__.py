"""Orders: who buys what."""
