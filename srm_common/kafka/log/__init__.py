"""Reads a partition's log from its leader: records, markers, offsets by time, ends of leader epochs."""
