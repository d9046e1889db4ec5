"""Spark applications; spark-submit starts them by file."""
