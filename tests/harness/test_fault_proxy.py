"""The fault proxy does to a request what its rules say, and only to the requests that they mean."""

from __future__ import annotations

import json
import sys
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from harness.fault_proxy import FaultProxy, aws_error
from harness.processes import LOOPBACK, ServiceProcess, accepts, free_port

ECHO = """
import json, sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
seen = []
class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_POST(self):
        seen.append(self.rfile.read(int(self.headers["Content-Length"])).decode())
        self.do_GET()
    def do_GET(self):
        data = json.dumps(seen).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)
ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""


@pytest.fixture(scope="module")
def proxy(tmp_path_factory):
    folder = tmp_path_factory.mktemp("proxy")
    port = free_port()
    service = ServiceProcess.start(
        "echo", [sys.executable, "-c", ECHO, str(port)], folder=folder, ready=lambda: accepts(port)
    )
    proxy = FaultProxy.start(folder, f"http://{LOOPBACK}:{port}")
    yield proxy
    proxy.stop()
    service.stop()


def send(proxy, body, path="/v1/submitjob"):
    return httpx.post(proxy.url + path, content=body, timeout=20)


def acted_on(proxy, body):
    return json.loads(httpx.get(proxy.url + "/seen").text).count(body)


def test_without_rules_requests_pass_and_are_counted(proxy):
    with httpx.Client() as client:
        for _ in range(3):
            assert client.post(proxy.url + "/plain", content="plain").status_code == 200
    assert acted_on(proxy, "plain") == 3
    assert proxy.count("/plain") == 3
    assert proxy.totals()["POST /plain"] == 3
    assert {request.status for request in proxy.requests("/plain", "plain")} == {200}


def test_a_dropped_response_is_lost_after_the_service_acted(proxy):
    with proxy.rule("drop_response", path="/v1/submitjob", body="dropped", times=1) as rule:
        with pytest.raises(httpx.RemoteProtocolError):
            send(proxy, "dropped")
        assert send(proxy, "dropped").status_code == 200
        assert rule.hits == 1
    assert acted_on(proxy, "dropped") == 2


def test_a_dropped_request_never_reaches_the_service(proxy):
    with proxy.rule("drop_request", body="unheard"), pytest.raises(httpx.RemoteProtocolError):
        send(proxy, "unheard")
    assert acted_on(proxy, "unheard") == 0


def test_a_rule_leaves_other_requests_alone(proxy):
    with proxy.rule("drop_response", path="submitjob$", method="POST", body="mine", skip=1) as rule:
        assert send(proxy, "theirs").status_code == 200
        assert send(proxy, "mine", "/v1/describejobs").status_code == 200
        assert send(proxy, "mine").status_code == 200
        assert rule.hits == 0
        with pytest.raises(httpx.RemoteProtocolError):
            send(proxy, "mine")


def test_a_held_response_waits_until_released_with_the_service_done(proxy):
    with ThreadPoolExecutor() as pool, proxy.rule("hold_response", body="held") as rule:
        answer = pool.submit(send, proxy, "held")
        rule.wait_held()
        assert acted_on(proxy, "held") == 1
        assert not answer.done()
        rule.release()
        assert answer.result(timeout=20).status_code == 200


def test_a_held_request_reaches_the_service_when_released(proxy):
    with ThreadPoolExecutor() as pool, proxy.rule("hold_request", body="waits") as rule:
        answer = pool.submit(send, proxy, "waits")
        rule.wait_held()
        assert acted_on(proxy, "waits") == 0
        rule.release()
        assert answer.result(timeout=20).status_code == 200
    assert acted_on(proxy, "waits") == 1


@pytest.mark.parametrize(("action", "acted"), [("answer", 0), ("answer_after", 1)])
def test_an_answer_is_made_up_with_or_without_the_service(proxy, action, acted):
    error = aws_error("TooManyRequestsException")
    with proxy.rule(action, body=f"made-{action}", status=429, answer=error):
        answer = send(proxy, f"made-{action}")
    assert answer.status_code == 429
    assert answer.json()["__type"] == answer.headers["x-amzn-ErrorType"] == "TooManyRequestsException"
    assert acted_on(proxy, f"made-{action}") == acted


def test_a_delay_delays(proxy):
    with proxy.rule("delay", body="late", seconds=0.5):
        assert send(proxy, "late").elapsed.total_seconds() >= 0.5


def test_during_an_outage_connections_are_refused(proxy):
    with proxy.outage(), pytest.raises(httpx.ConnectError):
        send(proxy, "outage")
    assert send(proxy, "outage").status_code == 200
