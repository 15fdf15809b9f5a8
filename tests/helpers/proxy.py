"""A proxy of TCP whose server can be made slow, silent or failing while connections are open."""

import socket
import threading
import time
from contextlib import contextmanager, suppress

FAILURE = b"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


class Proxy:
    """Passes bytes on to a port; ``mode`` may be "well", "slow", "silent", "failing" or "gone"."""

    def __init__(self, target):
        self.mode, self._target = "well", target
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self):
        self._listening.close()

    def _accept(self):
        with suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                if self.mode == "gone":
                    client.close()
                    continue
                server = socket.create_connection(("127.0.0.1", self._target))
                for pair in ((client, server), (server, client)):
                    threading.Thread(target=self._pass_on, args=(*pair, pair[0] is client), daemon=True).start()

    def _pass_on(self, source, target, is_request):
        with suppress(OSError), source, target:
            while piece := source.recv(65536):
                if self.mode == "gone":
                    return
                if self.mode == "silent":
                    continue
                if self.mode == "slow" and is_request:
                    time.sleep(0.3)
                if self.mode == "failing" and is_request:
                    source.sendall(FAILURE)
                    return
                target.sendall(piece)


@contextmanager
def proxy_of(port):
    proxy = Proxy(port)
    try:
        yield proxy
    finally:
        proxy.close()
