"""Models of runs in formats of other programs: one file a format."""
