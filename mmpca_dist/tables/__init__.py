"""Labelled tables: what they are, their labels, readers for each format, and maps of their rows."""
