"""``make compat``: the wheel in environments as people have them, not in that of ``constraints.txt``."""
