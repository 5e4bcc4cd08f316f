"""The fast path of plain tool calls, for each kind of connection."""
