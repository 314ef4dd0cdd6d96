"""A Hub on loopback: resolves files, and answers for gated models and missing names as the Hub does."""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

COMMIT = "0123456789abcdef0123456789abcdef01234567"


class StandIn(ThreadingHTTPServer):
    """Serves `files`, "org/name/file" -> content, and keeps the requests it got."""

    def __init__(self, files: Mapping[str, bytes]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.files = files
        self.seen: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    server: StandIn

    def do_HEAD(self) -> None:
        self.answer(body=False)

    def do_GET(self) -> None:
        self.answer(body=True)

    def answer(self, *, body: bool) -> None:
        self.server.seen.append(f"{self.command} {self.path}")
        parts = self.path.strip("/").split("/")
        if parts[0] == "api":
            self.api("/".join(parts[2:4]))
            return
        repo, revision, name = "/".join(parts[:2]), parts[3], "/".join(parts[4:])
        if repo == "org/gated":
            self.error(403, "GatedRepo", "Access is restricted")
        elif not any(key.startswith(repo + "/") for key in self.server.files):
            self.error(401, "RepoNotFound", "Repository not found")
        elif revision not in ("main", COMMIT):
            self.error(404, "RevisionNotFound", "Revision not found")
        elif f"{repo}/{name}" not in self.server.files:
            self.error(404, "EntryNotFound", "Entry not found")
        else:
            self.file(self.server.files[f"{repo}/{name}"], body=body)

    def api(self, repo: str) -> None:
        names = [key.removeprefix(repo + "/") for key in self.server.files if key.startswith(repo + "/")]
        siblings = [{"rfilename": name} for name in names]
        data = json.dumps({"id": repo, "sha": COMMIT, "siblings": siblings, "modelId": repo}).encode()
        self.file(data, body=True)

    def file(self, data: bytes, *, body: bool) -> None:
        wanted, etag = self.headers.get("Range"), sha256(data).hexdigest()
        self.send_response(206 if wanted else 200)
        if wanted:
            first, _, last = wanted.removeprefix("bytes=").partition("-")
            data = data[int(first) : int(last) + 1]
        self.send_header("ETag", f'"{etag}"')
        self.send_header("X-Repo-Commit", COMMIT)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if body:
            self.wfile.write(data)

    def error(self, status: int, code: str, message: str) -> None:
        self.send_response(status)
        self.send_header("X-Error-Code", code)
        self.send_header("X-Error-Message", message)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""
