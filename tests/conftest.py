"""Keep tests away from what belongs to the person who runs them.

Airflow reads its home folder and settings when it is first imported, so this happens here, before any test
module is, and once in each pytest-xdist worker: a home of its own that is removed at the end, none of the
caller's Airflow settings, connections or cloud credentials, and no proxy between a test and loopback.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile

_FOREIGN = ("AIRFLOW", "AWS_", "DATABRICKS_", "GOOGLE_", "GCP_", "CLOUDSDK_", "SPARK_", "OTEL_")

for _name in [name for name in os.environ if name.startswith(_FOREIGN)]:
    del os.environ[_name]

_home = tempfile.mkdtemp(prefix="airflow-durable-tests-")
atexit.register(shutil.rmtree, _home, ignore_errors=True)

os.environ.update(
    AIRFLOW_HOME=_home,
    AIRFLOW__CORE__LOAD_EXAMPLES="False",
    # A test that forgets its stand-in gets an error from here, not somebody's account.
    AWS_ACCESS_KEY_ID="testing",
    AWS_SECRET_ACCESS_KEY="testing",
    AWS_DEFAULT_REGION="eu-west-1",
    AWS_EC2_METADATA_DISABLED="true",
    AWS_CONFIG_FILE=os.devnull,
    AWS_SHARED_CREDENTIALS_FILE=os.devnull,
    NO_PROXY="127.0.0.1,localhost,::1",
    no_proxy="127.0.0.1,localhost,::1",
)
