"""A web server on this machine for tests of downloads."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class LocalServer:
    """Files by path, and the paths that were requested.

    ``stated_bytes`` replaces the length in the header of an answer, as of a connection that breaks.
    """

    address: str
    files: dict[str, bytes] = field(default_factory=dict)
    requested: list[str] = field(default_factory=list)
    stated_bytes: int | None = None


@contextlib.contextmanager
def local_server() -> Iterator[LocalServer]:
    """Serve files until the end of the block."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:  # the name that http.server calls
            served.requested.append(self.path)
            if self.path not in served.files:
                self.send_error(404)
                return
            content = served.files[self.path]
            self.send_response(200)
            self.send_header("Content-Length", str(served.stated_bytes or len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        served = LocalServer(f"http://127.0.0.1:{server.server_port}")
        thread = threading.Thread(target=server.serve_forever, args=[0.01])
        thread.start()
        try:
            yield served
        finally:
            server.shutdown()
            thread.join()
