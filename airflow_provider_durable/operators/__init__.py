"""Durable operators, one module a service; each needs its own extra and nothing else."""
