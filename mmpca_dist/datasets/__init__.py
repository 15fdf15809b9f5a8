"""Labelled tables: what they are, readers for each format, stores, and ingest."""
