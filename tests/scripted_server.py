"""A server on this machine that takes requests as JSON, and misbehaves as it is told.

What a good answer is, subclasses say. `ScriptedServer.requests` is what has been asked, in order of arrival.
"""

import json
import math
import socket
import struct
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Condition, Event, Thread
from typing import Self

WAIT_S = 20  # for what a test counts on; it is never waited out unless a test fails


@dataclass(frozen=True)
class Request:
    """What a client sent; names of headers in lower case; `at` in seconds, by a clock that does not jump."""

    path: str
    headers: Mapping[str, str]
    body: dict
    at: float


@dataclass
class Fault:
    """What befalls `times` requests, after `after` good ones; only requests about `only`, if that is given.

    `kind` is "answer" (the answer is `status`, `headers` and `content`), "hang" (none comes), "late" (a good one comes
    when the server's `resume` is set), "reset" (the connection breaks) or "half" (it ends in the middle of a good
    answer).
    """

    kind: str = "answer"
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    content: str = ""
    times: float = math.inf
    after: int = 0
    only: str | None = None


class ScriptedServer:
    """The server, from entering the context to leaving it. What its methods and attributes say may change meanwhile.

    `alter` changes the good answers; if `line_up` is N, good answers wait until N requests have come, and are then
    given in the reverse order; `most_at_once` is the largest number of requests that were under way together.
    """

    def __init__(self):
        self.requests: list[Request] = []
        self.faults: list[Fault] = []
        self.alter: Callable[[dict], object] = lambda answer: answer
        self.line_up = 0
        self.most_at_once = 0
        self.hanging = Event()  # set when a request hangs, or its answer is to be late
        self.resume = Event()
        self.over = Event()
        self.changed = Condition()
        self.under_way = 0
        self.line: list[Request] = []

    def __enter__(self) -> Self:
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.scripted = self
        self.origin = f"http://127.0.0.1:{self._server.server_port}"
        self.url = f"{self.origin}/v1"
        Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        self._server.shutdown()
        self._server.server_close()

    def fail(self, *faults: Fault) -> None:
        """Put faults on what is asked from now on, the first ones first."""
        self.faults += faults

    def refuse(self, status: int, message: str = "", times: float = math.inf, **headers: str) -> None:
        """Answer with an HTTP status, and a message as OpenAI words it."""
        content = json.dumps({"error": {"message": message, "type": "invalid_request_error", "code": None}})
        headers = {name.replace("_", "-"): value for name, value in headers.items()}
        self.fail(Fault("answer", status, headers, content, times))

    def note(self, request: Request) -> Fault | None:
        """Record a request; the fault that is to befall it."""
        with self.changed:
            self.requests.append(request)
            for fault in self.faults:
                if fault.times <= 0 or (fault.only is not None and not self.is_about(request, fault.only)):
                    continue
                if fault.after > 0:
                    fault.after -= 1
                    return None
                fault.times -= 1
                return fault
        return None

    def is_about(self, request: Request, text: str) -> bool:
        """Whether a request is about a text."""
        raise NotImplementedError

    def answer(self, request: Request) -> object:
        """What a good answer to a request is."""
        raise NotImplementedError

    def wait_in_line(self, request: Request) -> None:
        """Wait until `line_up` requests are here, and those that came later are gone."""
        with self.changed:
            self.line.append(request)
            self.changed.notify_all()
            count = self.line_up
            assert self.changed.wait_for(lambda: self.line_up == 0 or len(self.line) == count, WAIT_S)
            self.line_up = 0
            assert self.changed.wait_for(lambda: self.line[-1] is request, WAIT_S)

    def leave_line(self, request: Request) -> None:
        """Let the next one go."""
        with self.changed:
            if request in self.line:
                self.line.remove(request)
                self.changed.notify_all()


class _Server(ThreadingHTTPServer):
    scripted: ScriptedServer
    daemon_threads = True
    request_queue_size = 64

    def handle_error(self, request, client_address) -> None:
        """Say nothing: clients that go away are part of the tests."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def log_message(self, *_: object) -> None:
        pass

    def do_POST(self) -> None:
        server = self.server.scripted
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        headers = {name.lower(): value for name, value in self.headers.items()}
        request = Request(self.path, headers, body, time.monotonic())
        fault = server.note(request)
        with server.changed:
            server.under_way += 1
            server.most_at_once = max(server.most_at_once, server.under_way)
        try:
            self._answer(server, request, fault)
        finally:
            with server.changed:
                server.under_way -= 1
            server.leave_line(request)

    def _answer(self, server: ScriptedServer, request: Request, fault: Fault | None) -> None:
        if fault is None:
            if server.line_up:
                server.wait_in_line(request)
            self._send(200, {}, json.dumps(server.answer(request)))
        elif fault.kind == "answer":
            self._send(fault.status, fault.headers, fault.content)
        elif fault.kind == "half":
            self._send(200, {}, json.dumps(server.answer(request)), whole=False)
        elif fault.kind == "late":
            server.hanging.set()
            assert server.resume.wait(WAIT_S)
            self._send(200, {}, json.dumps(server.answer(request)))
        elif fault.kind == "hang":
            server.hanging.set()
            server.over.wait()
            self.close_connection = True
        else:
            linger = struct.pack("ii", 1, 0)  # closing sends a reset
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            self.connection.close()
            self.close_connection = True

    def _send(self, status: int, headers: Mapping[str, str], content: str, whole: bool = True) -> None:
        packed = content.encode()
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", **headers}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(packed)))
        self.end_headers()
        self.wfile.write(packed if whole else packed[: len(packed) // 2])
        self.close_connection = not whole
