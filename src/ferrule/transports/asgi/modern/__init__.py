"""The modern revisions over HTTP: one POST is one request, without a session."""
