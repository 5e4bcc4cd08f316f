"""Ways to send a request to an API: over HTTP, or into an application of this process."""
