"""Flow health: states, alarms, remedies."""
