"""``python -m bmrm`` prints what a report of a fault should say."""

from bmrm.cli.versions import show_versions

show_versions()
