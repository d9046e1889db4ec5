"""Benchmark against the real MirrorMaker 2: the same brokers, the same records, one after the other.

``python -m bench [WORKLOAD ...]`` or ``make bench WORKLOAD=...``. What is measured, and how, is in ``bench/README.md``.
"""
