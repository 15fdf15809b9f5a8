"""Prefect flows, and the command ``mmpca``."""
