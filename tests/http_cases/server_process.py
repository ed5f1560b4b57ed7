"""Starts and stops `emberbank serve` for a case."""

import json
import re
import signal
import subprocess
import threading
import time

START_TIMEOUT_S = 120


class StartFailed(Exception):
    """The server ended before it was ready; the text is what it printed."""


# What the cases call a setting, and our flag for it.
FLAGS = {
    "max_context": "--context-length",
    "max_concurrent": "--max-num-seqs",
    "max_queue": "--max-queue",
    "api_key": "--api-key",
    "ssd_cache_dir": "--ssd-cache-dir",
    "ssd_cache_max": "--ssd-cache-max-gb",
}
UNITS_PER_GB = {"MB": 1024, "GB": 1}


def flag_value(key, value):
    """The setting's value as our flag takes it."""
    if key == "ssd_cache_max":
        number, unit = re.fullmatch(r"(\d+)(MB|GB)", value).groups()
        return str(int(number) / UNITS_PER_GB[unit])
    return str(value)


class ServerProcess:
    def __init__(self, binary, model, name, config=None, script=None, extra=()):
        """Waits until the server answers. `script`: path of a script file, see CONTRIBUTING.md."""
        command = [binary, "serve", model, "--host", "127.0.0.1", "--port", "0", "--served-model-name", name]
        # A case that leaves the temperature open must not hang on the luck of a draw.
        command += ["--default-temperature", "0", *extra]
        for key, value in (config or {}).items():
            if key == "model_dir":
                continue
            command += [FLAGS[key], flag_value(key, value)]
        if not {"--ssd-cache-dir", "--no-ssd-cache"} & set(command):
            command.append("--no-ssd-cache")  # never the user's own cache
        if script:
            command += ["--script", script]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                        errors="replace")
        self.lines = []
        self.port = None
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        deadline = time.monotonic() + START_TIMEOUT_S
        while self.port is None:
            if self.process.poll() is not None:
                self._reader.join(5)
                raise StartFailed("".join(self.lines))
            if time.monotonic() > deadline:
                self.kill()
                raise StartFailed("not ready in time:\n" + "".join(self.lines))
            time.sleep(0.02)

    def _read(self):
        for line in self.process.stdout:
            self.lines.append(line)
            if self.port is None and (match := re.search(r"http://127\.0\.0\.1:(\d+)", line)):
                self.port = int(match[1])

    def stop(self):
        """Ends the server as a user would and returns its exit status."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(60)
            except subprocess.TimeoutExpired:
                self.kill()
        self._reader.join(5)
        self.process.stdout.close()
        return self.process.returncode

    def kill(self):
        self.process.kill()
        self.process.wait()


def write_script(path, backend):
    """A case's scripted backend in the form `serve --script` reads."""
    script = {k: backend[k] for k in ("chunks", "chunks_hex", "finish", "prefill_delay_s", "prompt_tail")
              if k in backend}
    if "chunks" not in script and "chunks_hex" not in script:
        script["chunks"] = [backend["raw"]]
    with open(path, "w", encoding="utf-8") as file:
        json.dump(script, file)
