"""The HTTP client that tests control a service with."""

from __future__ import annotations

import httpx


class HttpClient(httpx.Client):
    """A client that opens a connection for each request.

    A server ends a connection that was idle for some seconds. Where that meets the next request on it, the
    request fails, and a POST cannot be repeated blindly: rare, and then a test fails for nothing.

    :param timeout: seconds for each request
    """

    def __init__(self, timeout: float = 30.0) -> None:
        super().__init__(timeout=timeout, limits=httpx.Limits(max_keepalive_connections=0))
