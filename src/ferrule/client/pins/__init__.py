"""Tools whose definitions are those of a snapshot."""
