"""Flow health: states, alarms and which of them were sent, remedies."""
