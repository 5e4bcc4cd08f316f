"""Interfaces for what must outlive a process or be shared between several, and their implementations."""
