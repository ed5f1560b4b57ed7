"""A real redis-server for the tests."""

import shutil
import signal
import socket
import subprocess
import tempfile
import time


class RedisServer:
    """On a free port, in memory only. `flags` are redis-server's."""

    def __init__(self, *flags):
        program = shutil.which("redis-server") or shutil.which("valkey-server")
        if program is None:
            raise FileNotFoundError("redis-server is missing; `scripts/setup --tests` installs it")
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            self.port = listener.getsockname()[1]
        self.folder = tempfile.TemporaryDirectory(prefix="emberbank-redis-")
        self.command_line = [program, "--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--appendonly",
                             "no", "--dir", self.folder.name, *flags]
        self.start()

    def start(self):
        self.process = subprocess.Popen(self.command_line, stdout=subprocess.DEVNULL)
        deadline = time.monotonic() + 20
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
                return
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def pause(self):
        self.process.send_signal(signal.SIGSTOP)

    def resume(self):
        self.process.send_signal(signal.SIGCONT)

    def stop(self):
        self.resume()
        self.kill()
        self.folder.cleanup()

    def call(self, *words, password=""):
        """What redis-cli prints for a command."""
        program = shutil.which("redis-cli") or shutil.which("valkey-cli")
        given = ["-a", password, "--no-auth-warning"] if password else []
        return subprocess.run([program, "-p", str(self.port), *given, *words], capture_output=True, text=True,
                              timeout=60, check=True).stdout.strip()
