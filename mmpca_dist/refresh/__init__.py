"""Refresh: extend a finished run by new rows."""
