"""From a target to an open connection: channels, the choice of an era, authorization."""
