"""Views, service specifications and Ninja operations of a project as tools, and which user sees which of them."""
