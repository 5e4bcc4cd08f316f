"""Warehouses: where products are."""
