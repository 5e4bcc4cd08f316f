"""The version, alone, so that every layer can name it and the build reads it without importing anything."""

__version__ = "0.1.0"
