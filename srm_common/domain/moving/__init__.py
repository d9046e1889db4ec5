"""Groups and flows that change hands: failover, failback, take-over, hand-back."""
