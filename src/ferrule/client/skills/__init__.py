"""Skills on the client's side: entries, verified reads, the user's approval."""
