"""Ready-made handlers for the questions that servers ask a `Client`: at a terminal, with defaults, or with no."""

from ferrule.client.calls.callbacks import ServerQuestion
from ferrule.client.calls.forms import ask_at_terminal, decline, fill_defaults, sample_at_terminal

__all__ = ["ServerQuestion", "ask_at_terminal", "decline", "fill_defaults", "sample_at_terminal"]
