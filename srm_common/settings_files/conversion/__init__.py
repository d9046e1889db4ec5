"""The configurations of other tools, converted to one properties file."""
