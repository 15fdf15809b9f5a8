"""Losses, penalties, and what minimises their sums over the rows."""
