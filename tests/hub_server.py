"""A stand-in of the Hugging Face Hub on this machine, which serves files as the Hub does, and misbehaves.

Small files come from the Hub itself, under git's hash; large ones (LFS) by a redirect to a store of another origin,
under their SHA-256. `HubServer.fail` puts a `Fault` on the requests for a file, or for what the API says (INFO of a
model, TREE, the list of its files); `HubServer.requests` is what has been asked. A model is called "models/OWNER/NAME",
a dataset "OWNER/NAME".
"""

import hashlib
import json
import math
import re
import socket
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Lock, Thread

INFO, TREE = "revision", "tree"
_RESOLVE = re.compile(r"/(datasets/)?([^/]+/[^/]+)/resolve/([^/]+)/(.+)")
_API = re.compile(rf"/api/(models/[^/]+/[^/]+)/({INFO}|{TREE})/([^/?]+)(\?recursive=true\b.*)?", re.IGNORECASE)
_RANGE = re.compile(r"bytes=(\d+)-(\d*)")


@dataclass(frozen=True)
class Request:
    """What a client asked for; `file` is the file's name, also where it asked the store for a hash."""

    method: str
    path: str
    file: str
    range: str | None
    authorization: str | None


@dataclass
class Fault:
    """What goes wrong with the first `times` requests of `method`.

    `kind` is "status" (answer with `status` and `headers`), "cut" or "reset" (end or break the connection `after` bytes
    of the body), "stall" (send `after` bytes of it, and then nothing), "hang" (do not answer at all), "flip" (one byte
    of the body is another), "size" (announce `after` bytes more than there are), or "page" (answer with a web page).
    """

    kind: str
    method: str = "GET"
    times: float = math.inf
    after: int = 0
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class _File:
    name: str
    content: bytes
    large: bool
    commit: str

    @property
    def hash(self) -> str:
        if self.large:
            return hashlib.sha256(self.content).hexdigest()
        return hashlib.sha1(b"blob %d\0" % len(self.content) + self.content).hexdigest()

    @property
    def listed(self) -> dict:
        """As a list of files tells of it."""
        size = len(self.content)
        lfs = {"lfs": {"oid": self.hash, "size": size, "pointerSize": 134}} if self.large else {}
        return {"type": "file", "path": self.name, "size": size, "oid": self.hash[:40], **lfs}


class HubServer:
    """The Hub, from entering the context to leaving it. Everything that its methods change may change while it runs."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.stuck = Event()  # set when a request hangs, or stalls
        self.over = Event()
        self._lock = Lock()
        self._repositories: dict[str, dict[str, dict[str, _File]]] = {}
        self._blobs: dict[str, _File] = {}
        self._tokens: dict[str, str] = {}
        self._faults: dict[str, list[Fault]] = {}

    def __enter__(self) -> "HubServer":
        self._servers = [_Server(("127.0.0.1", 0), _Handler) for _ in range(2)]
        for server in self._servers:
            server.hub = self
            Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        ports = [server.server_port for server in self._servers]
        # Two names, since a client may take another port of the same name for the Hub too.
        self.url, self.store = f"http://127.0.0.1:{ports[0]}", f"http://localhost:{ports[1]}"
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        for server in self._servers:
            server.shutdown()
            server.server_close()

    def serve(self, repo: str, revision: str, files: Mapping[str, bytes], large: tuple[str, ...] = ()) -> None:
        """Have these files, and no others, in a repository at a revision; those in `large` as LFS files."""
        held = {name: _File(name, content, name in large, revision) for name, content in files.items()}
        self._repositories[repo] = {revision: held}
        self._blobs |= {file.hash: file for file in held.values() if file.large}

    def remove(self, repo: str) -> None:
        """Have that repository no longer."""
        del self._repositories[repo]

    def gate(self, repo: str, token: str) -> None:
        """Serve a repository only to who has the token."""
        self._tokens[repo] = token

    def fail(self, file: str, fault: Fault) -> None:
        """Put a fault on the files of that name."""
        self._faults.setdefault(file, []).append(fault)

    def heal(self) -> None:
        """Take all faults and gates away."""
        self._faults.clear()
        self._tokens.clear()

    def asked(self, method: str = "GET") -> list[str]:
        """The names of the files that were asked for so far, in order."""
        return [request.file for request in self.requests if request.method == method]

    def find(self, path: str, authorization: str | None) -> "_File | list[_File] | tuple[int, str]":
        """The file under a path, or what the API lists, or the status and the error code with which it is refused."""
        if path.startswith("/blobs/"):
            return self._blobs.get(path.removeprefix("/blobs/"), (404, "EntryNotFound"))
        api = _API.fullmatch(path)
        if api:
            repo, _, revision, _ = api.groups()
        else:
            kind, repo, revision, name = _RESOLVE.fullmatch(path).groups()
            repo = repo if kind else f"models/{repo}"
        if repo not in self._repositories:
            return (404 if authorization else 401), "RepoNotFound"
        if repo in self._tokens and not api and authorization != f"Bearer {self._tokens[repo]}":
            return (403 if authorization else 401), "GatedRepo"  # what the API says is open to everybody
        files = self._repositories[repo].get(revision)
        if files is None:
            return 404, "RevisionNotFound"
        return list(files.values()) if api else files.get(name, (404, "EntryNotFound"))

    def note(self, request: Request) -> Fault | None:
        """Record a request; the fault that is to befall it."""
        with self._lock:
            self.requests.append(request)
            for fault in self._faults.get(request.file, []):
                if fault.method == request.method and fault.times > 0:
                    fault.times -= 1
                    return fault
        return None


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64
    hub: HubServer

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that has gone is no error here."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:
        """No log."""

    def do_HEAD(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        self._answer()

    def _answer(self) -> None:
        hub, authorization = self.server.hub, self.headers["Authorization"]
        found = hub.find(self.path, authorization)
        api = _API.fullmatch(self.path)
        asked = api[2] if api else self.path.rpartition("/")[2]
        name = found.name if isinstance(found, _File) else asked
        fault = hub.note(Request(self.command, self.path, name, self.headers["Range"], authorization))
        kind = fault.kind if fault else None
        if kind == "hang":
            self._stick()
        elif kind == "status":
            self._empty(fault.status, fault.headers)
        elif kind == "page":
            self._body(200, {"Content-Type": "text/html"}, b"<html>Please log in to this network.</html>", None)
        elif isinstance(found, tuple):
            self._empty(found[0], {"X-Error-Code": found[1]})
        elif isinstance(found, list):
            self._list(found, asked, fault)
        else:
            self._serve(found, fault)

    def _list(self, files: list[_File], asked: str, fault: Fault | None) -> None:
        folders = {file.name.rpartition("/")[0] for file in files} - {""}
        rows = [{"type": "directory", "path": folder, "size": 0, "oid": "0" * 40} for folder in sorted(folders)]
        tree = rows + [file.listed for file in files]
        info = {"id": "owner/name", "siblings": [{"rfilename": file.name} for file in files]}
        body = json.dumps(tree if asked == TREE else info).encode()
        self._body(200, {"Content-Type": "application/json"}, body, fault)

    def _serve(self, file: _File, fault: Fault | None) -> None:
        more = fault.after if fault and fault.kind == "size" else 0
        described = {"X-Repo-Commit": file.commit, "Accept-Ranges": "bytes"}
        if not file.large:
            self._part(file, {**described, "ETag": f'"{file.hash}"'}, more, fault)
        elif self.path.startswith("/blobs/"):
            self._part(file, {"Accept-Ranges": "bytes", "ETag": '"as-the-store-calls-it"'}, more, fault)
        else:
            described |= {"X-Linked-Etag": f'"{file.hash}"', "X-Linked-Size": str(len(file.content) + more)}
            self._empty(302, {**described, "Location": f"{self.server.hub.store}/blobs/{file.hash}"})

    def _part(self, file: _File, headers: Mapping[str, str], more: int, fault: Fault | None) -> None:
        """The content, or the part of it that is wanted. Announces `more` bytes than there are."""
        content = bytearray(file.content)
        if fault and fault.kind == "flip":
            content[len(content) // 2] ^= 1
        wanted = _RANGE.fullmatch(self.headers["Range"] or "")
        if not wanted:
            return self._body(200, headers, bytes(content), fault, more)
        first, last = int(wanted[1]), min(int(wanted[2] or len(content)), len(content) - 1)
        span = {"Content-Range": f"bytes {first}-{last}/{len(content)}"}
        return self._body(206, {**headers, **span}, bytes(content[first : last + 1]), fault, more)

    def _body(self, status: int, headers: Mapping[str, str], body: bytes, fault: Fault | None, more: int = 0) -> None:
        self._head(status, {**headers, "Content-Length": str(len(body) + more)})
        if self.command == "HEAD":
            return
        if fault is None or fault.kind not in ("cut", "reset", "stall"):
            self.wfile.write(body)
            return
        self.wfile.write(body[: fault.after])
        if fault.kind == "stall":
            self._stick()
        elif fault.kind == "reset":  # closing with this option sends RST instead of FIN
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.close()
        self.close_connection = True

    def _empty(self, status: int, headers: Mapping[str, str]) -> None:
        self._head(status, {**headers, "Content-Length": "0"})

    def _head(self, status: int, headers: Mapping[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def _stick(self) -> None:
        self.server.hub.stuck.set()
        self.server.hub.over.wait()
        self.close_connection = True
