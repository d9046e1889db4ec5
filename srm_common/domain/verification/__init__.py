"""Verification: what a copy is compared with, how it may differ, results, and possible repairs."""
