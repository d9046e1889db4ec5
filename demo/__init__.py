"""The demo: two Kafka clusters, topics that are being written, and an Airflow that copies them; nothing is faked.

``python -m demo`` runs it until Ctrl-C, ``python -m demo stop`` ends one that was left running.
"""
