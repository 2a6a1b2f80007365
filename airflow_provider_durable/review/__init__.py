"""Review of Dag files: finds what should be durable, and what only looks so.

Reads Dag files as text and never imports or runs them. Nothing in this package imports Airflow or a
cloud library, so it works where Airflow has no configuration and no database.
"""
