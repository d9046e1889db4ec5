"""What the driver does: ownership (it fences the transactional ids of all slots), passes, the run's folder, results."""
