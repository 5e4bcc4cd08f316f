"""Stores for data that outlives a process or is shared by several: interfaces, and implementations in memory.

Each interface is a protocol of at most five methods. The implementations in SQLite, Redis and PostgreSQL are separate
modules, which are imported only if they are used.
"""
