"""The tests' AWS Batch stand-in, made fast enough for a thousand clients, and counting.

Runs in moto's venv. DescribeJobs, all that is asked during a measurement, is answered from the same jobs
without moto's routing, which takes 4 ms a request: too slow for the side that asks for each job. Both sides
get these answers.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "harness"))

import batch_standin
from werkzeug.serving import BaseWSGIServer


class CountingApplication(batch_standin.Application):
    """The stand-in's application, with ``/standin/asked``: how many DescribeJobs, about how many jobs."""

    def __init__(self) -> None:
        super().__init__()
        self.requests = 0
        self.asked: set[str] = set()

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Any:
        """Answer one request."""
        path = environ.get("PATH_INFO", "")
        if path == "/v1/describejobs":
            wanted = json.loads(environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"])))["jobs"]
            with batch_standin.LOCK:
                self.requests += 1
                self.asked.update(wanted)
            assert len(wanted) <= batch_standin.DESCRIBE_LIMIT
            jobs = [batch_standin.JOBS[job].describe() for job in wanted if job in batch_standin.JOBS]
            data = json.dumps({"jobs": jobs}).encode()
        elif path == "/standin/asked":
            with batch_standin.LOCK:
                data = json.dumps({"requests": self.requests, "jobs": len(self.asked)}).encode()
                if environ["REQUEST_METHOD"] == "DELETE":
                    self.requests, self.asked = 0, set()
        else:
            return super().__call__(environ, start_response)
        start_response("200 OK", [("Content-Type", "application/json"), ("Content-Length", str(len(data)))])
        return [data]


if __name__ == "__main__":
    # A thousand clients connect within a second.
    BaseWSGIServer.request_queue_size = 1024
    batch_standin.Application = CountingApplication
    batch_standin.main()
