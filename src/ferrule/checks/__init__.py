"""Judges what a server says about itself, without a model and without calling a tool: rules, snapshots, differences.

Everything here is a function of a `ServerPicture`; `ferrule.cli.checking` reads one from a server.
"""
