"""The audit of a server: one bounded record for each decision, in a file, a log or a function, chained if wanted."""
