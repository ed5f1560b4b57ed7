"""A server that nobody should ask: counts the requests that reach it."""

import http.server
import threading


class Canary:
    def __init__(self):
        self.hits = 0
        canary = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                canary.hits += 1
                self.send_response(200)
                self.end_headers()

            do_HEAD = do_POST = do_GET

            def log_message(self, *_):
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self._server.server_port
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self):
        self._server.shutdown()
        self._server.server_close()
