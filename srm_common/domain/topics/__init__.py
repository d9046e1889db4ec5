"""Topics and their copies: records, decisions, actions."""
