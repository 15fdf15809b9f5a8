"""One folder for each family of models that are fitted by sweeps."""
