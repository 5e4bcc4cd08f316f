"""The types of the features that a server offers (specification, "Server features")."""
