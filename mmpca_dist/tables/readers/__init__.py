"""Readers of rows: one file for each format."""
