"""A stand-in of huggingface.co on loopback, for tools that take no file and know no other address.

It is an HTTPS proxy that answers for huggingface.co itself, under a certificate of its own: a tool is given
`HTTPS_PROXY` and `SSL_CERT_FILE` and runs unchanged. It serves configs and a checkpoint of one small tensor, whose
header is all that a planner reads; every other host is refused, so that nothing leaves the machine.
"""

from __future__ import annotations

import json
import re
import ssl
import struct
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import NamedTuple

HOST = "huggingface.co"
REVISION = "0" * 40
PARAMETERS = 1_000_000
_TENSOR = {"model.embed_tokens.weight": {"dtype": "BF16", "shape": [1000, 1000], "data_offsets": [0, 2 * PARAMETERS]}}
_JSON = json.dumps(_TENSOR).encode()
HEADER = struct.pack("<Q", len(_JSON)) + _JSON
CHECKPOINT_BYTES = len(HEADER) + 2 * PARAMETERS
_RANGE = re.compile(r"bytes=(\d+)-(\d+)")


class Reply(NamedTuple):
    """Status, body and headers."""

    status: int
    body: bytes
    headers: dict[str, str] = {}  # noqa: RUF012


def reply(configs: Mapping[str, bytes], path: str, wanted: str | None) -> Reply:
    """The Hub's answer for `path`; `wanted` is the Range header."""
    parts = path.partition("?")[0].strip("/").split("/")
    if parts[:2] == ["api", "models"]:
        model = "/".join(parts[2:4])
        return _about(model, configs[model], tree="tree" in parts) if model in configs else Reply(404, b"{}")
    model, name = "/".join(parts[:2]), parts[-1]
    facts = {"ETag": '"0"', "X-Repo-Commit": REVISION, "Accept-Ranges": "bytes"}
    if model not in configs or name not in ("config.json", "model.safetensors"):
        return Reply(404, b"", {"X-Error-Code": "EntryNotFound"})
    if name == "config.json":
        return Reply(200, configs[model], facts)
    asked = _RANGE.match(wanted or "")
    if asked is None:
        return Reply(416, b"", facts)
    first = int(asked[1])
    part = HEADER[first : int(asked[2]) + 1]
    return Reply(206, part, facts | {"Content-Range": f"bytes {first}-{first + len(part) - 1}/{CHECKPOINT_BYTES}"})


def _about(model: str, config: bytes, *, tree: bool) -> Reply:
    files = [("config.json", len(config)), ("model.safetensors", CHECKPOINT_BYTES)]
    found: object = [{"type": "file", "path": name, "size": size, "oid": REVISION} for name, size in files]
    if not tree:
        found = {
            "_id": "0",
            "id": model,
            "modelId": model,
            "sha": REVISION,
            "private": False,
            "tags": ["safetensors"],
            "siblings": [{"rfilename": name, "size": size} for name, size in files],
            "safetensors": {"parameters": {"BF16": PARAMETERS}, "total": PARAMETERS},
            "config": json.loads(config),
        }
    return Reply(200, json.dumps(found).encode(), {"Content-Type": "application/json"})


def _handler(configs: Mapping[str, bytes], context: ssl.SSLContext) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_CONNECT(self) -> None:
            """Takes the connection over, as the host that the tool believes to have reached."""
            if self.path != f"{HOST}:443":
                self.send_error(403, "loopback only")
                return
            self.send_response(200)
            self.end_headers()
            self.connection = context.wrap_socket(self.connection, server_side=True)
            self.rfile = self.connection.makefile("rb")
            self.wfile = self.connection.makefile("wb")
            self.close_connection = False

        def do_HEAD(self) -> None:
            self._answer(with_body=False)

        def do_GET(self) -> None:
            self._answer(with_body=True)

        def _answer(self, *, with_body: bool) -> None:
            found = reply(configs, self.path, self.headers.get("Range"))
            self.send_response(found.status)
            for name, value in (found.headers | {"Content-Length": str(len(found.body))}).items():
                self.send_header(name, value)
            self.end_headers()
            if with_body:
                self.wfile.write(found.body)
            self.wfile.flush()

        def log_message(self, format: str, *args: object) -> None:
            """Nothing: the tools' own output is what is looked at."""

        def handle(self) -> None:
            try:
                super().handle()
            except OSError:
                self.close_connection = True  # the tool hung up

    return Handler


@contextmanager
def hub(configs: Mapping[str, bytes], certificates: Path) -> Iterator[str]:
    """Serves `configs` by model id; yields the proxy's URL. `certificates` holds server.pem and server.key."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates / "server.pem", certificates / "server.key")
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(configs, context))
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
