"""The command for servers that were written for another library."""
