"""Which folders become which packages; everything else is in pyproject.toml.

The folders ``pipelines`` and ``conf`` have names that others use too, so they are installed below names of this
project's own. Setuptools cannot combine such a mapping with its search for packages in pyproject.toml alone.
"""

from setuptools import find_packages, setup

setup(
    packages=[*find_packages(include=["mmpca_dist*"]), "mmpca_dist.conf", "mmpca_dist.conf.paper", "mmpca_pipelines"],
    package_dir={"mmpca_dist.conf": "conf", "mmpca_dist.conf.paper": "conf/paper", "mmpca_pipelines": "pipelines"},
)
