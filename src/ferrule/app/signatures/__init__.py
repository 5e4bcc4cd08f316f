"""Functions read once: annotations into shapes, shapes into JSON Schema, arguments into Python values."""
