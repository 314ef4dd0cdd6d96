"""A stand-in for a server that is elsewhere: pages by path on a port of this machine."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@contextmanager
def serving(pages: Mapping[str, str]) -> Iterator[str]:
    """The URL of a server of these pages. A text of "-> ADDRESS" is a redirect; any other path answers 404."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            text = pages.get(self.path)
            moved = text is not None and text.startswith("-> ")
            body = (text or "not found").encode()
            self.send_response(404 if text is None else 307 if moved else 200)
            if text is not None and moved:
                self.send_header("Location", text.removeprefix("-> "))
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()
