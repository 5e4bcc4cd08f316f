"""From the answer of an API to what a model reads."""
