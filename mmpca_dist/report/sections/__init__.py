"""The pictures of a run: a file for each section of its report."""
