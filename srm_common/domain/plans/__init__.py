"""What has to change on a target, as values that are printed, compared and carried out."""
