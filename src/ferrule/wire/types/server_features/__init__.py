"""What a server offers (specification, "Server features")."""
