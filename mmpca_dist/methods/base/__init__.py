"""Parts of methods: the base of their estimators, their registry, their solutions."""
