"""The model APIs: one module each, which reads responses and writes definitions and results as plain data."""
