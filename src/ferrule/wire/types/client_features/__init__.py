"""The types of the features that a client offers (specification, "Client features")."""
