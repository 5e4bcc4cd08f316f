"""What a server is given to others with: its card, its `server.json` for the registry, its bundle for desktop hosts."""
