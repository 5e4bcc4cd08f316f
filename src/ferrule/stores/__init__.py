"""What must outlive a process or be seen by several: small interfaces, and their implementations in memory.

Each interface is a Protocol of at most five methods. Implementations on SQLite and Redis are modules of their own,
imported only when chosen.
"""
