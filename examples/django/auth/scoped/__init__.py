"""Part of the example."""
