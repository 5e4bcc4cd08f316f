"""The server's side: verifies the token of a request: its sender, its audience, and its scopes."""
