"""Take-over of flows from MirrorMaker 2, and hand-back."""
