"""Evaluations as jobs."""
