"""The commands that judge a server without a model: ``check``, ``snapshot`` and ``diff``."""
