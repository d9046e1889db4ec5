"""Garbage for every parser of ours: it is read, or refused by an error that we name, soon and in little memory.

``make fuzz MINUTES=20`` changes real inputs at random, each target in a process of its own; ``tests/unit/test_fuzz.py``
tries the same few in each run of the ring. What is found becomes a test of the parser, beside its others.
"""
