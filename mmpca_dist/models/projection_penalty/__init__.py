"""Projection penalties (Zhang & Schneider 2010)."""

from mmpca_dist.models.projection_penalty.estimators import METHOD as METHOD
