"""Tools, resources and prompts: what an author registers, in one index per kind, mounted or own."""
