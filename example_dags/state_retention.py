"""How long a key is kept: by Airflow's setting, for a time of its own, or for good. Needs Airflow 3.3.

``airflow state-store clean`` deletes what has expired. Each write of a key starts its time anew.

An operator of this package takes the same values as ``state_retention``.
"""

from __future__ import annotations

import uuid
from datetime import timedelta

from airflow.sdk import DAG, NEVER_EXPIRE, task

with DAG("state_retention", schedule=None):

    @task(retries=2)
    def export(task_state_store=None):
        # A place in a listing is of no use tomorrow, whatever [state_store] default_retention_days says.
        page = task_state_store.get("next_page") or uuid.uuid4().hex
        task_state_store.set("next_page", page, retention=timedelta(hours=6))
        # An export that goes on for months must be found again after Airflow's 30 days.
        export_id = task_state_store.get("export_id") or f"export-{uuid.uuid4()}"
        task_state_store.set("export_id", export_id, retention=NEVER_EXPIRE)
        # Kept for [state_store] default_retention_days from now.
        task_state_store.set("pages", 1)
        return export_id

    export()
