"""Leading eigenvectors, and what is proved of them."""
