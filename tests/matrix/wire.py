"""Every call that leaves a process under test: to Airflow's supervisor, so to the store, and to the service.

Each call is counted and named as it happens, so that whatever an operator comes to call is a point at which
it can be killed, or at which an answer can be lost, without anybody adding it to a list.
"""

from __future__ import annotations

import io
import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from urllib3 import HTTPResponse
from urllib3.connectionpool import HTTPConnectionPool
from urllib3.exceptions import MaxRetryError, NewConnectionError, ProtocolError, ReadTimeoutError

if TYPE_CHECKING:
    from matrix.actions import Action
    from matrix.service import Service

#: So many calls of one process, or so much time, and it is going round in circles.
MOST_CALLS = 3000
LONGEST_LIFE = 48 * 3600.0


class Crash(BaseException):
    """The process dies here, as by kill -9: nothing that it does from now on reaches anybody."""


class Stuck(Exception):
    """The task would go on for ever."""


@dataclass
class Process:
    """One process of a task's life: a try in the worker, or a trigger in a triggerer."""

    number: int
    kind: str
    #: Whether it takes up a deferred task.
    resumes: bool = False
    calls: list[str] = field(default_factory=list)
    dead: bool = False
    #: When SIGKILL follows on SIGTERM.
    kill_at: float | None = None
    #: Whether the service, or Airflow's API server, cannot be reached from now on.
    service_down: bool = False
    api_down: bool = False
    started_at: float = field(default_factory=time.monotonic)


class Transport:
    """How a call fails, in the words of its library."""

    is_request = True

    def lost(self) -> BaseException:
        """The connection broke before the answer came."""
        raise NotImplementedError

    def refused(self) -> BaseException:
        """There was no connection."""
        raise NotImplementedError

    def timed_out(self) -> BaseException:
        """The answer did not come in time."""
        raise NotImplementedError

    def error(self, status: int) -> Any:
        """An answer that is an error of the server."""
        raise NotImplementedError


class Supervisor(Transport):
    """The channel to the supervisor, which nothing but a crash or a missing API server breaks here."""

    is_request = False

    def refused(self) -> BaseException:
        from airflow.sdk.exceptions import AirflowRuntimeError, ErrorType
        from airflow.sdk.execution_time.comms import ErrorResponse

        detail = {"message": "the API server cannot be reached"}
        return AirflowRuntimeError(ErrorResponse(error=ErrorType.GENERIC_ERROR, detail=detail))


@dataclass
class Http(Transport):
    """A request through urllib3: below boto3, requests and Google's client, and below their own repeats."""

    service: Service
    pool: HTTPConnectionPool
    method: str
    url: str
    retries: Any

    def lost(self) -> BaseException:
        return ProtocolError("Connection aborted.", ConnectionResetError(104, "Connection reset by peer"))

    def refused(self) -> BaseException:
        error = NewConnectionError(self.pool, "Connection refused")  # type: ignore[arg-type]
        # As urllib3 does it: raw where its own repeats are off.
        is_raw = getattr(self.retries, "total", self.retries) is False
        return error if is_raw else MaxRetryError(self.pool, self.url, error)

    def timed_out(self) -> BaseException:
        return ReadTimeoutError(self.pool, self.url, "Read timed out.")

    def error(self, status: int) -> Any:
        body, headers = self.service.error(status)
        return HTTPResponse(
            body=io.BytesIO(body),
            headers={**headers, "Content-Length": str(len(body))},
            status=status,
            preload_content=False,
            request_method=self.method,
            request_url=self.url,
        )


class Aiohttp(Transport):
    """A request through aiohttp, which triggers of Apache's use."""

    def lost(self) -> BaseException:
        import aiohttp

        return aiohttp.ServerDisconnectedError()

    def refused(self) -> BaseException:
        import aiohttp

        return aiohttp.ClientConnectionError("Connection refused")

    def timed_out(self) -> BaseException:
        import aiohttp

        return aiohttp.ServerTimeoutError()

    def error(self, status: int) -> Any:
        # An answer cannot be made up here; to its callers a broken connection is as good an error.
        raise self.lost()


class Wire:
    """What the processes of one task's life call, and what becomes of it by the cell's script."""

    def __init__(self) -> None:
        self.service: Service | None = None
        self.process: Process | None = None
        self.processes: list[Process] = []
        self.script: dict[tuple[int, int], Action] = {}
        #: The places of the script that no call has come by.
        self.not_met: set[tuple[int, int]] = set()
        #: Why the cell cannot come to an end.
        self.stuck = ""
        #: All that was ever stored.
        self.values: list[tuple[str, Any]] = []
        #: Keys that are in the task state store.
        self.stored: set[str] = set()
        #: Called once a process is dead.
        self.on_crash: Callable[[], None] = lambda: None
        #: Ends the triggerer at hand: True for a person's action on the task, False for a shutdown.
        self.stop_triggerer: Callable[[bool], None] = lambda by_person: None
        #: Told of each call that was carried out.
        self.on_call: Callable[[str], None] = lambda name: None
        self._channel = threading.Lock()
        self._count = threading.Lock()

    def begin(self, script: dict[tuple[int, int], Action]) -> None:
        """Forget the cell before."""
        self.processes, self.process = [], None
        self.follow(script)
        self.values, self.stored, self.stuck = [], set(), ""

    def follow(self, script: dict[tuple[int, int], Action]) -> None:
        """Have this happen."""
        self.script, self.not_met = script, set(script)

    def start_process(self, kind: str, *, resumes: bool = False) -> Process:
        """A process begins."""
        self.process = Process(len(self.processes), kind, resumes)
        self.processes.append(self.process)
        self.on_crash = lambda: None
        return self.process

    def end_process(self) -> None:
        """It is gone; what happens until the next one is nobody's doing."""
        self.process = None

    def crash(self) -> None:
        """End the process, as by kill -9."""
        if self.process is not None:
            self.process.dead = True
            self.on_crash()
        raise Crash

    def sleeping(self, seconds: float) -> bool:
        """A process under test is about to sleep; one that was told to end may not wake up."""
        process = self.process
        if process is None:
            return False
        if process.dead:
            raise Crash
        now = time.monotonic()
        if process.kill_at is not None and now + seconds >= process.kill_at:
            self.crash()
        if now + seconds - process.started_at > LONGEST_LIFE:
            self._give_up(process, "sleeps for days")
        return True

    def call(self, name: str, perform: Callable[[], Any], transport: Transport) -> Any:
        """
        Carry out a call of a process under test, unless something happens to it.

        :param name: what is called
        :param perform: carries it out and returns the answer
        :param transport: how it fails
        """
        process = self.process
        if process is None:
            return perform()
        _number, action = self._note(process, name)

        def perform_it() -> Any:
            answer = perform()
            self.on_call(name)
            return answer

        if action is None:
            return perform_it()
        return action.strike(self, name, perform_it, transport)

    def _note(self, process: Process, name: str) -> tuple[int, Action | None]:
        if process.dead:
            raise Crash
        if process.kill_at is not None and time.monotonic() >= process.kill_at:
            self.crash()
        with self._count:
            number = len(process.calls)
            process.calls.append(name)
        if number > MOST_CALLS:
            self._give_up(process, "calls without end")
        where = process.number, number
        self.not_met.discard(where)
        return number, self.script.get(where)

    def _give_up(self, process: Process, why: str) -> None:
        self.stuck = f"it {why}: {process.calls[-8:]}"
        self.crash()

    # -- where calls come by -------------------------------------------------------------------

    def install(self) -> None:
        """Take hold of the ways out of this interpreter."""
        self._hold_supervisor()
        self._hold_urllib3()
        self._hold_aiohttp()

    def _hold_supervisor(self) -> None:
        from airflow.sdk.execution_time.supervisor import InProcessSupervisorComms

        send, wire = InProcessSupervisorComms.send, self

        def counted(comms: Any, msg: Any) -> Any:
            def perform() -> Any:
                if wire.process is not None and wire.process.api_down:
                    raise Supervisor().refused()
                # As in the real channel, whose lock is not reentrant either.
                with wire._channel:
                    answer = send(comms, msg)
                wire._see(msg)
                return answer

            return wire.call(_name_of(msg), perform, Supervisor())

        InProcessSupervisorComms.send = counted  # type: ignore[method-assign]

    def _see(self, msg: Any) -> None:
        kind = type(msg).__name__
        if kind == "SetTaskStateStore":
            self.stored.add(msg.key)
            self.values.append((msg.key, msg.value))
        elif kind == "DeleteTaskStateStore":
            self.stored.discard(msg.key)

    def _hold_urllib3(self) -> None:
        urlopen, wire = HTTPConnectionPool.urlopen, self

        def counted(
            pool: Any, method: str, url: str, body: Any = None, headers: Any = None, **kw: Any
        ) -> Any:
            service = wire.service
            if service is None or wire.process is None or not service.serves(pool.host, pool.port):
                return urlopen(pool, method, url, body, headers, **kw)
            transport = Http(service, pool, method, url, kw.get("retries"))

            def perform() -> Any:
                if wire.process is not None and wire.process.service_down:
                    raise transport.refused()
                return urlopen(pool, method, url, body, {**(headers or {}), **service.headers()}, **kw)

            return wire.call(
                service.operation(method, url, body), _seen(service, method, url, body, perform), transport
            )

        HTTPConnectionPool.urlopen = counted  # type: ignore[method-assign,assignment]

    def _hold_aiohttp(self) -> None:
        try:
            from aiohttp import ClientSession
        except ImportError:
            return
        request, wire = ClientSession._request, self

        async def counted(session: Any, method: str, url: Any, **kw: Any) -> Any:
            service, path = wire.service, str(url).partition("://")[2].partition("/")
            if service is None or wire.process is None or not service.serves(*_host(path[0])):
                return await request(session, method, url, **kw)
            process = wire.process
            body = kw.get("data") or (json.dumps(kw["json"]) if kw.get("json") else None)
            kw["headers"] = {**(kw.get("headers") or {}), **service.headers()}
            name = service.operation(method, f"/{path[2]}", body)
            _number, action = wire._note(process, name)
            outcome: list[Any] = []

            async def perform() -> Any:
                if process.service_down:
                    raise Aiohttp().refused()
                answer = await request(session, method, url, **kw)
                _seen(service, method, f"/{path[2]}", body, lambda: None)()
                wire.on_call(name)
                return answer

            if action is None:
                return await perform()
            if action.performs:
                outcome.append(await perform())
            return action.strike(wire, name, lambda: outcome[0] if outcome else None, Aiohttp())

        ClientSession._request = counted  # type: ignore[method-assign,assignment]


def _seen(
    service: Service, method: str, url: str, body: Any, perform: Callable[[], Any]
) -> Callable[[], Any]:
    """Have the service know who was looked at, after the request was carried out."""

    def performed() -> Any:
        answer = perform()
        for job_id in service.looked_at(method, url, body):
            service.look(job_id)
        return answer

    return performed


def _host(netloc: str) -> tuple[str, int]:
    host, _, port = netloc.partition(":")
    return host, int(port or 80)


def _name_of(msg: Any) -> str:
    """A message to the supervisor, as people say it."""
    kind = type(msg).__name__
    store = {"GetTaskStateStore": "get", "SetTaskStateStore": "set", "DeleteTaskStateStore": "delete"}
    if kind in store:
        return f"store.{store[kind]} {msg.key}"
    return f"{kind} {msg.key}" if hasattr(msg, "key") else kind
