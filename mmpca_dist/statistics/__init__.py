"""What a pass over the rows leaves behind: moments, medians, products of scatters and vectors."""
