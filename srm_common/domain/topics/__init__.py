"""Topics and their copies: which topics a flow copies and why, their records, and single changes of topics."""
