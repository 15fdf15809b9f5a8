"""Kernel methods for tables in memory: projection penalties, and reductions in the space of a kernel."""
