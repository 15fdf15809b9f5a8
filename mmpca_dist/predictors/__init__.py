"""Classifiers of reduced rows: from class moments without another pass, or fitted to rows."""
