"""The tables of Zhang & Schneider 2010, "Projection Penalties", next to own figures.

``python -m mmpca_paper.zhang_schneider CONFIG`` computes the tables of ``conf/paper/zhang-schneider-*.yaml``.
"""
