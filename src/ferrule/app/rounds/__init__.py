"""One body for both eras: questions, steps, and the rounds in which a modern client answers them."""
