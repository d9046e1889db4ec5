"""The ``srm-control`` command."""
