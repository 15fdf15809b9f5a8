"""Nearest rows of other classes: cells, proved bounds, and a search that never needs the data in memory."""
