"""The web app as a service of its own, by ``srm-control serve``: its logins, its scheduler, its configuration."""
