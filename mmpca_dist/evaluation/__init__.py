"""Evaluation: splits, errors on held-out rows, margins, tests of differences."""
