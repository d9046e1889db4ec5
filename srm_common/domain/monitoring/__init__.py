"""Monitoring data of flows: reports of runs, and the history folded from them."""
