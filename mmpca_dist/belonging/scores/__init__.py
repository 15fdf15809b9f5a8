"""Scores of single rows, one file each: the larger, the less a row is like those that trained."""
