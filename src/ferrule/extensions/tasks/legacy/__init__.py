"""Tasks as the core of revision 2025-11-25 has them; deleted with the legacy era."""
