"""The commands as a user runs them: exit statuses, messages, signals."""

import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

from support import BINARY, ROOT, SMOLLM2, ServerCase, ServerProcess, http_client


def run(*arguments, **options):
    return subprocess.run([BINARY, *arguments], capture_output=True, text=True, timeout=300, check=False, **options)


class Help(unittest.TestCase):
    def test_help_and_version(self):
        for arguments in (["--help"], ["serve", "--help"], ["chat", "--help"], ["bench", "--help"], ["models", "--help"]):
            answer = run(*arguments)
            self.assertEqual(answer.returncode, 0, arguments)
            self.assertIn("--help", answer.stdout)
        self.assertRegex(run("--version").stdout, r"\d+\.\d+\.\d+")

    def test_an_unknown_flag_names_the_nearest(self):
        answer = run("serve", SMOLLM2, "--max-num-seq", "3")
        self.assertNotEqual(answer.returncode, 0)
        self.assertIn("--max-num-seqs", answer.stderr)


class Selftest(unittest.TestCase):
    def test_it_finds_reuse_exact(self):
        answer = run("selftest", SMOLLM2, "--kv-bits", "16", "--lives", "1")
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.assertRegex(answer.stdout, r"^exact \[kv-bits 16\]: \d\d answers compared, 0 differ")

    def test_unknown_actions_of_the_cache_command_name_those_there_are(self):
        for arguments, words in ((["cache"], "one of ls, stats"), (["cache", "frobnicate"], 'got "frobnicate"'),
                                 (["cache", "export"], "needs a directory"), (["cache", "ls", "x"], 'got "x"')):
            answer = run(*arguments)
            self.assertEqual(answer.returncode, 1)
            self.assertIn(words, answer.stderr)


class BadModels(unittest.TestCase):
    """One clear sentence, exit 1, no crash."""

    def refuse(self, path):
        answer = run("serve", str(path), "--port", "0")
        self.assertEqual(answer.returncode, 1, answer.stderr)
        lines = [line for line in answer.stderr.splitlines() if line.strip()]
        self.assertTrue(lines)
        self.assertNotRegex(answer.stderr, r"std::|terminate called|\.cpp")
        return answer.stderr

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def test_nothing_there(self):
        self.assertIn("no-such-model", self.refuse("no-such-model"))

    def test_an_empty_directory(self):
        self.assertIn("config.json", self.refuse(self.folder))

    def test_an_unknown_architecture(self):
        (self.folder / "config.json").write_text(json.dumps({"model_type": "frobnicator"}))
        (self.folder / "tokenizer.json").write_text("{}")
        self.assertTrue(self.refuse(self.folder))

    def test_a_truncated_gguf_file(self):
        size = os.path.getsize(SMOLLM2)
        for share in (0.00001, 0.01, 0.5, 0.99):
            path = self.folder / "cut.gguf"
            with open(SMOLLM2, "rb") as source:
                path.write_bytes(source.read(int(size * share)))
            self.assertIn("cut.gguf", self.refuse(path))

    def test_heads_that_the_kernels_do_not_split(self):
        factory = [sys.executable, str(ROOT / "tools/model_factory"), "--family", "llama", "--format", "hf",
                   "--config", '{"head_dim": 24}', "--out", str(self.folder / "odd")]
        subprocess.run(factory, check=True, capture_output=True)
        self.assertIn("head_dim of 24", self.refuse(self.folder / "odd"))

    def test_a_port_in_use(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = str(taken.getsockname()[1])
            answer = run("serve", SMOLLM2, "--port", port)
        self.assertEqual(answer.returncode, 1)
        self.assertIn(port, answer.stderr)


class Signals(unittest.TestCase):
    def start_long_answer(self, server):
        """A stream that has begun and would take long."""
        connection = socket.create_connection(("127.0.0.1", server.port))
        self.addCleanup(connection.close)
        body = json.dumps({"model": "m", "stream": True, "max_tokens": 7000, "ignore_eos": True, "prompt": "Once"}).encode()
        connection.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                           + f"Content-Length: {len(body)}\r\n\r\n".encode() + body)
        connection.settimeout(60)
        while b"data:" not in connection.recv(65536):
            pass
        return connection

    def test_the_first_signal_drains_and_the_second_ends(self):
        server = ServerProcess(BINARY, SMOLLM2, "m")
        self.start_long_answer(server)
        server.process.send_signal(signal.SIGTERM)
        time.sleep(0.5)
        self.assertIsNone(server.process.poll())  # still answering
        server.process.send_signal(signal.SIGTERM)
        begin = time.monotonic()
        server.process.wait(10)
        self.assertLess(time.monotonic() - begin, 2)

    def test_a_running_answer_is_finished(self):
        server = ServerProcess(BINARY, SMOLLM2, "m")
        request = {"method": "POST", "path": "/v1/completions", "headers": {},
                   "body": {"model": "m", "prompt": "Once", "max_tokens": 100, "ignore_eos": True}}
        answers = []
        thread = threading.Thread(target=lambda: answers.append(http_client.send(server.port, request)))
        thread.start()
        time.sleep(0.4)
        self.assertEqual(server.stop(), 0)
        thread.join()
        self.assertEqual(answers[0]["status"], 200)
        self.assertEqual(answers[0]["body"]["usage"]["completion_tokens"], 100)


class Settings(unittest.TestCase):
    def test_flags_come_before_environment_before_file(self):
        with tempfile.TemporaryDirectory() as folder:
            config = pathlib.Path(folder) / "c.toml"
            config.write_text('[serve]\ncontext-length = 1024\nmax-tokens = 7\n')
            os.environ["EMBERBANK_CONTEXT_LENGTH"] = "2048"
            self.addCleanup(os.environ.pop, "EMBERBANK_CONTEXT_LENGTH")
            server = ServerProcess(BINARY, SMOLLM2, "m", extra=["--config", str(config)])
            self.addCleanup(server.stop)
            models = http_client.send(server.port, {"method": "GET", "path": "/v1/models", "headers": {}})
            self.assertEqual(models["body"]["data"][0]["max_model_len"], 2048)
            answer = http_client.send(server.port, {
                "method": "POST", "path": "/v1/completions", "headers": {},
                "body": {"prompt": "Once", "ignore_eos": True}})
            self.assertEqual(answer["body"]["usage"]["completion_tokens"], 7)


class Keys(ServerCase):
    FLAGS = ("--api-key", "secret-one")

    def ask(self, headers):
        return http_client.send(self.server.port, {"method": "GET", "path": "/v1/models", "headers": headers})["status"]

    def test_a_key_is_asked_for(self):
        self.assertEqual(self.ask({}), 401)
        self.assertEqual(self.ask({"Authorization": "Bearer wrong"}), 401)
        self.assertEqual(self.ask({"Authorization": "Bearer secret-one"}), 200)
        self.assertEqual(self.ask({"x-api-key": "secret-one"}), 200)

    def test_health_and_metrics_need_none(self):
        for path in ("/health", "/metrics"):
            self.assertEqual(
                http_client.send(self.server.port, {"method": "GET", "path": path, "headers": {}})["status"], 200)


class Chat(ServerCase):
    def test_talks_through_a_pipe_with_history(self):
        answer = run("chat", "--url", self.url, "--temperature", "0",
                     input="Name three colors.\n/stats\n/reset\n/quit\n")
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.assertIn("red", answer.stdout.lower())

    def test_says_when_nobody_listens(self):
        answer = run("chat", "--url", "http://127.0.0.1:1", input="hi\n")
        self.assertEqual(answer.returncode, 1)
        self.assertIn("127.0.0.1", answer.stderr)


class Bench(unittest.TestCase):
    def test_prints_the_keys_of_the_baseline(self):
        answer = run("bench", SMOLLM2, "--prefill", "64", "--decode", "8", "--depth", "0,128", "--parallel", "1,2",
                     "--threads", "2", "--repeat", "1", "--json")
        self.assertEqual(answer.returncode, 0, answer.stderr)
        numbers = json.loads(answer.stdout)
        self.assertEqual(sorted(numbers), sorted(["prefill64@0", "decode8@0", "prefill64@128", "decode8@128",
                                                  "decode8x1@256", "decode8x2@256"]))
        self.assertTrue(all(v > 0 for v in numbers.values()))


class Models(unittest.TestCase):
    def test_lists_what_is_found_and_why_something_cannot_be_served(self):
        with tempfile.TemporaryDirectory() as folder:
            os.symlink(SMOLLM2, f"{folder}/good.gguf")
            pathlib.Path(folder, "bad.gguf").write_bytes(b"GGUF\x03\0\0\0")
            environment = {**os.environ, "EMBERBANK_MODELS": folder, "HOME": folder}
            listing = run("models", env=environment)
            self.assertEqual(listing.returncode, 0)
            self.assertRegex(listing.stdout, r"good.*\bllama\b")
            self.assertIn("bad", listing.stdout)
            os.environ["EMBERBANK_MODELS"] = folder
            self.addCleanup(os.environ.pop, "EMBERBANK_MODELS")
            server = ServerProcess(BINARY, "good", "m")  # by name: found in the folder
            self.assertEqual(server.stop(), 0)


if __name__ == "__main__":
    unittest.main()
