"""The rules of ``ferrule check``: each module looks at one side of a server and returns findings."""
