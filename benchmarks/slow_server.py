"""The embedded llama.cpp server behind a proxy that slows every answer down by a known factor.

Named as LLAMA_SERVER it takes llama-server's flags; `--alias slow-1.10` makes everything that a client sees of a
request come 10 % later, counted from when the request arrived: time to first token, time per output token, end of the
answer. Without such an alias the proxy stands there all the same and adds nothing, so both arms pay for it alike. The
variable SLOWER does the same to a configuration that must not change, as an upgrade does.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
from time import perf_counter

from aiohttp import ClientResponse, ClientSession, ClientTimeout, TCPConnector, web

from kvlab.ports import free_port

_ALIAS = re.compile(r"slow-(\d+(?:\.\d+)?)")


class Proxy:
    """Passes requests on to `target`; answers come `factor` times as late as they came."""

    def __init__(self, target: str, factor: float) -> None:
        self._target = target
        self._factor = factor
        # llama.cpp's server closes a connection after a few answers, at times just when the next request is sent.
        self._session = ClientSession(
            timeout=ClientTimeout(total=None), auto_decompress=False, connector=TCPConnector(force_close=True)
        )

    async def pass_on(self, request: web.Request) -> web.StreamResponse:
        """One request; of a stream every piece waits for its own moment."""
        began = perf_counter()
        body = await request.read()
        headers = {
            name: request.headers[name] for name in ("Content-Type", "Accept-Encoding") if name in request.headers
        }
        url = self._target + str(request.rel_url)
        async with self._session.request(request.method, url, data=body or None, headers=headers) as answer:
            response = web.StreamResponse(status=answer.status, headers={"Content-Type": answer.content_type})
            pieces = asyncio.Queue[tuple[float, bytes | None]]()
            reading = asyncio.create_task(_read(answer, pieces))
            factor = self._factor if request.method == "POST" else 1.0
            try:
                while True:
                    arrived, piece = await pieces.get()
                    await asyncio.sleep(began + factor * (arrived - began) - perf_counter())
                    if not response.prepared:
                        await response.prepare(request)
                    if piece is None:
                        break
                    await response.write(piece)
            finally:
                reading.cancel()
            await response.write_eof()
            return response

    async def close(self) -> None:
        """Closes the connections to the server behind."""
        await self._session.close()


async def _read(answer: ClientResponse, pieces: asyncio.Queue[tuple[float, bytes | None]]) -> None:
    """Every piece of the answer with the moment at which it came, whatever the client is sent meanwhile."""
    async for piece in answer.content.iter_any():
        pieces.put_nowait((perf_counter(), piece))
    pieces.put_nowait((perf_counter(), None))


async def serve(port: int, behind: int, factor: float, child: subprocess.Popen[bytes]) -> None:
    """Serves until a signal arrives or the server behind has ended."""
    proxy = Proxy(f"http://127.0.0.1:{behind}", factor)
    app = web.Application(client_max_size=1 << 26)
    app.router.add_route("*", "/{path:.*}", proxy.pass_on)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    while not ended.is_set() and child.poll() is None:
        try:
            await asyncio.wait_for(ended.wait(), 0.2)
        except TimeoutError:
            continue
    await proxy.close()


def main() -> int:
    """Starts the embedded server on a port of its own, and the proxy on the one that was asked for."""
    argv = sys.argv[1:]
    if "--port" not in argv:  # asked for its version or its flags: those of the server itself
        return subprocess.call([sys.executable, "-m", "kvlab.engines.llamacpp.embedded", *argv])
    at = argv.index("--port") + 1
    port, behind = int(argv[at]), free_port()
    slowed = _ALIAS.search(" ".join(argv))
    factor = float(slowed.group(1) if slowed else os.environ.get("SLOWER", "1"))
    argv[at] = str(behind)
    child = subprocess.Popen([sys.executable, "-m", "kvlab.engines.llamacpp.embedded", *argv])
    try:
        asyncio.run(serve(port, behind, factor, child))
    finally:
        child.terminate()
        child.wait(10)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
