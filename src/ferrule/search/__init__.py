"""Search over tools: the ranked index, and what servers and gateways with a search have in common."""
