"""Reducers of every kind of statistics, for tests of what changes the rows of all of them."""

from mmpca_dist import LOL, PLS, FisherDiscriminant, MarginPCA, RidgeDirections, SupervisedPCA

REDUCERS = {
    **{
        variant: lambda variant=variant: MarginPCA(2, variant=variant)
        for variant in ("pca", "m-pca0", "m-pca1a", "m-pca1b", "m-pca2")
    },
    "fisher": lambda: FisherDiscriminant(),
    "hsic": lambda: SupervisedPCA(),
    "lol": lambda: LOL(3),
    "pls": lambda: PLS(2),
    "ridge": lambda: RidgeDirections(),
}
"""Makers of reducers by name."""
