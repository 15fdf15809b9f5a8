"""Methods of dimensionality reduction: one file each, with an estimator and a specification."""
