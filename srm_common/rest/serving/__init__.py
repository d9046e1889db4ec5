"""The web app as a standalone service (``srm-control serve``): its logins, scheduler and configuration."""
