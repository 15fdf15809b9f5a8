"""Jobs, which are runs and evaluations: their folder, stages, records, lease and cluster."""
