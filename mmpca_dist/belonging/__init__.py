"""Whether rows belong to those that a model was fitted to: scores, their limits from held-out rows, and drift."""
