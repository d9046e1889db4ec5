"""Name patterns with the semantics of MirrorMaker 2 (Java regular expressions)."""
