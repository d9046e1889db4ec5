"""Verification: what a copy is compared with, how it may differ, results and what would mend it."""
