"""What Tab gives in a shell: the scripts, the words on a line, and the names of a server that were seen before."""
