"""Honest comparison: splits of the rows, moments of folds, tests of differences."""
