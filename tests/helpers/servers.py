"""Small servers that the tests talk to."""

import functools
import http.server
import threading


@functools.cache
def forbidding_server():
    """Start a server that answers 403 to everything, and return its port."""

    class Forbid(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(403)
            self.end_headers()

        do_HEAD = do_GET  # noqa: N815

        def log_message(self, *_args):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Forbid)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server.server_port


@functools.cache
def whole_file_server(data):
    """Start a server that answers with these bytes, whatever range of them is asked for, and return its port."""

    class Whole(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(data)

        do_HEAD = do_GET  # noqa: N815

        def log_message(self, *_args):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Whole)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server.server_port
