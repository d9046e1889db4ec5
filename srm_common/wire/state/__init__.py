"""Records of state topics: MirrorMaker 2's, and those of the offset map."""
