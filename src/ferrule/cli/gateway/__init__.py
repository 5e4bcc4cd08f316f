"""``ferrule gateway``: one address for several servers, made of a configuration."""
