"""Configurations: YAML, forms and environment variables into a validated ``RunConfig``."""
