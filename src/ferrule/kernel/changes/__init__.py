"""What the server publishes: one bus for all listeners, relayed between processes."""
