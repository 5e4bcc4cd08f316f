"""What a client offers (specification, "Client features")."""
