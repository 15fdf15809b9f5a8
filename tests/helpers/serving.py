"""A local web server for one file."""

import http.server
import threading
from contextlib import contextmanager


@contextmanager
def serving(data, *, status=200, length=None):
    """Yield the address of a file, and a list that gets an entry whenever it is asked for."""
    asked = []

    class Answers(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            self.send_response(status)
            self.send_header("Content-Length", str(len(data) if length is None else length))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_args):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/elsewhere/other%20name.npz?version=2", asked
        server.shutdown()
