"""Runs: fit methods, project rows, transform new rows."""
