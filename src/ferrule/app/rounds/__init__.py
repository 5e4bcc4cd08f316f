"""Questions and steps in a function that serves both eras, and the rounds in which a modern client answers them."""
