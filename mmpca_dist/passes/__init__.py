"""Passes over the rows: units, spans, the tree reduction, sweeps, folds, checkpoints."""
