"""One harness for all benchmarks: ``python -m benchmarks``. ``paper`` is a package of its own, ``mmpca_paper``."""
