"""Who sends a request: the authentication classes of the project, users, scopes, and metadata for signing in."""
