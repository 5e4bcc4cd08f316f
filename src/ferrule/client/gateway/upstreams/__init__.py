"""The servers behind a gateway: their connections, their calls and their last known lists."""
