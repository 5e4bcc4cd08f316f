"""The configuration files of hosts: where they are, reading and changing them."""
