"""Search over many tools: a list of three tools in place of a list that no model can read."""
