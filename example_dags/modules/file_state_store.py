"""A worker-side state store backend: values in files that all workers share. Needs Airflow 3.3.

For ``[workers] state_store_backend = file_state_store.FileStateStore``. Airflow's database then holds a
reference to each value, and the value itself never leaves the workers. ``STATE_STORE_FOLDER`` names the
folder.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from urllib.parse import quote

from airflow.sdk.state import BaseStoreBackend, TaskScope


def place(scope, key=None):
    """The file of a key, or the folder of all keys of a scope; the same for the same key, always."""
    if isinstance(scope, TaskScope):
        parts = ["tasks", scope.dag_id, scope.run_id, scope.task_id, str(scope.map_index)]
    else:
        parts = ["assets", scope.name or scope.uri]
    folder = Path(os.environ["STATE_STORE_FOLDER"]).joinpath(*(quote(part, safe="") for part in parts))
    return folder / f"{quote(key, safe='')}.json" if key else folder


class FileStateStore(BaseStoreBackend):
    def serialize_task_state_store_to_ref(self, *, value, key, scope):
        # The value must be there before the reference is: whoever dies in between leaves the old value or the
        # new one, never half of it.
        file = place(scope, key)
        file.parent.mkdir(parents=True, exist_ok=True)
        draft = file.with_suffix(".tmp")
        draft.write_text(json.dumps(value))
        draft.replace(file)
        return str(file)

    def deserialize_task_state_store_from_ref(self, stored):
        return json.loads(Path(stored).read_text())

    def serialize_asset_state_store_to_ref(self, *, value, key, scope):
        return self.serialize_task_state_store_to_ref(value=value, key=key, scope=scope)

    def deserialize_asset_state_store_from_ref(self, stored):
        return self.deserialize_task_state_store_from_ref(stored)

    def delete(self, scope, key, *, session=None):
        place(scope, key).unlink(missing_ok=True)

    def clear(self, scope, *, all_map_indices=False, session=None):
        shutil.rmtree(place(scope), ignore_errors=True)

    async def adelete(self, scope, key, *, session=None):
        self.delete(scope, key)

    async def aclear(self, scope, *, all_map_indices=False, session=None):
        self.clear(scope)

    def get(self, scope, key, *, session=None):
        raise NotImplementedError("On a worker, Airflow reads by reference.")

    # What only a backend of the API server is asked for.
    set = aget = aset = get
