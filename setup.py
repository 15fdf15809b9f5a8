"""Which folders become which packages; everything else is in pyproject.toml.

The folders ``pipelines``, ``conf`` and ``benchmarks/paper`` have names that others use too, so they are installed below
names of this project's own. Setuptools cannot combine such a mapping with its search for packages in pyproject.toml.
"""

from setuptools import find_packages, setup

MOVED = {
    "mmpca_dist.conf": "conf",
    "mmpca_dist.conf.paper": "conf/paper",
    "mmpca_pipelines": "pipelines",
    "mmpca_paper": "benchmarks/paper",
    "mmpca_paper.zhang_schneider": "benchmarks/paper/zhang_schneider",
}

setup(packages=[*find_packages(include=["mmpca_dist*"]), *MOVED], package_dir=MOVED)
