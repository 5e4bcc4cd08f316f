"""An application with users of its own."""
