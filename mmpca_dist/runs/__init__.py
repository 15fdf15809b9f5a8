"""Runs and evaluations as jobs, transforms of new rows, and refreshes of finished runs."""
