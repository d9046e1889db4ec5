"""Records on their way through a flow's transforms, as Arrow's columns."""
