"""A program that answers as `ollama` where kvlab starts it: serve, list, create, run, cp, rm over a folder of files."""

from __future__ import annotations

import json
import os
import shutil
import sys
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

STORE = Path(os.environ["OLLAMA_MODELS"])


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        name = self.path.removeprefix("/v1/models/")
        self.answer(self.path == "/" or (STORE / name).is_file())

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        known = (STORE / body["model"]).is_file()
        if "does not load" in (STORE / body["model"]).read_text():
            sys.stderr.write("exiting due to model loading error\n")
            known = False
        else:
            context = os.environ["OLLAMA_CONTEXT_LENGTH"]
            sys.stderr.write(f'level=INFO source=llama_server.go:1 msg="starting llama-server" cmd="-c {context}"\n')
            sys.stderr.write(f"llama_context: n_ctx                 = {context}\n")
        sys.stderr.flush()
        self.answer(known)

    def answer(self, found: bool) -> None:
        self.send_response(200 if found else 404)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Ollama's own log is enough."""


def main(words: list[str]) -> int:
    host, _, port = os.environ["OLLAMA_HOST"].rpartition(":")
    if words[0] == "serve":
        ThreadingHTTPServer((host, int(port)), Handler).serve_forever()
    server = f"http://{host}:{port}"
    urllib.request.urlopen(f"{server}/")  # every other command asks the server
    if words[0] == "create":
        (STORE / words[1]).write_text(Path(words[3]).read_text())
    elif words[0] == "run":
        urllib.request.urlopen(f"{server}/api/generate", json.dumps({"model": words[1]}).encode())
    elif words[0] == "cp":
        shutil.copy(STORE / words[1], STORE / words[2])
    elif words[0] == "rm":
        (STORE / words[1]).unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
