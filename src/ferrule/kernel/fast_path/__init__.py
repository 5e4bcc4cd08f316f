"""The fast path of plain ``tools/call`` requests over a stream pair."""
