"""Credentials for servers behind a gateway that depend on its caller: signed in, exchanged, or passed on."""
