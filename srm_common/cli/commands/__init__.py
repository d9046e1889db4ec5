"""The commands of ``srm-control``: a module each, with a click command called ``command``."""
