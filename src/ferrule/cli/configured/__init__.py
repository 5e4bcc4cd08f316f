"""Commands on a configuration with several servers, of which none is chosen: `list`, `call` and `doctor`."""
