"""Builds `bmrm_cuda13._cuda` in the folder that ``scripts/wheels.sh`` fills.

There the package's own ``setup.py`` is the module ``bmrm_setup``.
"""

import os
import sys

from setuptools import setup

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))  # a build in isolation does not look here

import bmrm_setup

from bmrm.base.version import __version__

bmrm_setup.MODULES = {"_cuda": "bmrm_cuda13"}
bmrm_setup.COPIED = {}
setup(
    install_requires=[f"bmrm=={__version__}"],
    ext_modules=bmrm_setup.extensions(),
    cmdclass={"build_ext": bmrm_setup.Build},
    options=bmrm_setup.OPTIONS,
)
