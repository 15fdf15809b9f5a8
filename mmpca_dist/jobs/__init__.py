"""What runs and evaluations share: folder, stages, records, lease, cluster."""
