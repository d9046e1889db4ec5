"""The demo: two Kafka clusters with live producers, and an Airflow that copies their topics; nothing is simulated.

``python -m demo`` runs it until Ctrl-C, ``python -m demo stop`` ends one that was left running. ``demo.failover`` and
``demo.verify`` each tell a story.
"""
