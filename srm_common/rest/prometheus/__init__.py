"""The metrics that Prometheus scrapes, and what a scraper without a login may see."""
