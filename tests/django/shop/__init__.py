"""An application with invoices."""
