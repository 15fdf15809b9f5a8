"""What methods are made of: the base of their estimators, their registry, their solutions."""
