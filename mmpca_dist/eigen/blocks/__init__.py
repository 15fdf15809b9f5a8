"""Solvers in passes: one file each."""
