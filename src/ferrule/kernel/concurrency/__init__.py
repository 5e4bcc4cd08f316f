"""How the kernel runs the tasks of requests: starting, cancelling, and yielding to the event loop."""
