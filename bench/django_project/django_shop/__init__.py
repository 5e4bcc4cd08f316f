"""A Django project whose views are served as tools by one of several packages.

The environment variable CANDIDATE says by which: ``ferrule``, ``django-mcp-server`` or
``djangorestframework-mcp-server``; ``http`` for the views alone. SHOP_DATABASE is the file of the database.
"""
