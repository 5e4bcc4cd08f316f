"""Reads functions: annotations to shapes, shapes to JSON Schema, arguments to Python values.

`schema_profile` adapts schemas to the APIs of models.
"""
