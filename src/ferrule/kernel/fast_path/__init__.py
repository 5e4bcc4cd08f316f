"""The fast path of plain ``tools/call`` requests over a stream pair, in process and over HTTP."""
