"""Statistics from passes over the rows: moments, medians, products of scatters and vectors."""
