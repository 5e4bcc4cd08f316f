"""Settings, URLs and entry points of the project."""
