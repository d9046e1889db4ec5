"""Previews of transforms: the newest records of a topic before and after them, as text."""
