"""``python -m airflow_provider_durable.review``: the same command where no console script is on PATH."""

from __future__ import annotations

import sys

from airflow_provider_durable.review.cli import main

if __name__ == "__main__":
    sys.exit(main())
