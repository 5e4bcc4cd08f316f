"""The callers, which send requests to an API: over HTTP, or to an application in this process."""
