"""The bank on disk, through the real program: what a kill leaves is used, and used exactly."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest

from support import BINARY, GEMMA3, LFM2, QWEN3_5, SMOLLM2, ServerProcess, http_client

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "http_cases"))
import cache_steps  # noqa: E402

TEXT = "".join(f"Shelf {i} holds {i * 7 % 97} jars of seeds and a small brass key. " for i in range(130))


def completion(prompt, **more):
    return {"method": "POST", "path": "/v1/completions", "headers": {},
            "body": {"prompt": prompt, "temperature": 0, "max_tokens": 8, "logprobs": 5, **more}}


class Bank(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="emberbank-bank-")
        self.addCleanup(self.folder.cleanup)

    def serve(self, model=SMOLLM2, *flags):
        server = ServerProcess(BINARY, model, "m", extra=("--ssd-cache-dir", f"{self.folder.name}/kv",
                                                           "--ssd-cache-max-gb", "4", *flags))
        self.addCleanup(server.stop)
        return server

    def ask(self, server, prompt, **more):
        answer = http_client.send(server.port, completion(prompt, **more))
        self.assertEqual(answer["status"], 200, answer["text"])
        body = answer["body"]
        details = body["usage"]["prompt_tokens_details"]
        return body["choices"][0], details, answer["ttft"], body["timings"]

    def check_restore(self, model):
        server = self.serve(model)
        cold, details, _, cold_times = self.ask(server, TEXT)
        self.assertEqual(details["cached_tokens"], 0)
        prompt_tokens = cold_times["prompt_n"]
        cache_steps.flush(server.port)
        server.kill()
        server = self.serve(model)
        warm, details, _, warm_times = self.ask(server, TEXT)
        self.assertEqual(warm["text"], cold["text"])
        self.assertEqual(warm["logprobs"], cold["logprobs"], "logits differ after a restore")
        self.assertGreaterEqual(details["cached_tokens"], prompt_tokens - 64)
        self.assertEqual(details["cached_tokens_disk"], details["cached_tokens"])
        again, details, _, _ = self.ask(server, TEXT)
        self.assertEqual(again["logprobs"], cold["logprobs"])
        self.assertEqual(details["cached_tokens_disk"], 0, "now from memory")
        return cold_times, warm_times

    def test_the_first_request_after_kill_9_restores(self):
        self.check_restore(SMOLLM2)

    def test_sliding_windows_restore_too(self):
        self.check_restore(GEMMA3)

    def test_recurrent_layers_restore_too(self):
        self.check_restore(QWEN3_5)

    def test_short_convolutions_restore_too(self):
        self.check_restore(LFM2)

    def chat(self, server, messages):
        """(text and logprobs of the reply, prompt tokens, cached tokens)"""
        body = {"messages": messages, "temperature": 0, "max_tokens": 90, "ignore_eos": True, "logprobs": True}
        answer = http_client.send(server.port, {"method": "POST", "path": "/v1/chat/completions", "headers": {},
                                                "body": body})
        self.assertEqual(answer["status"], 200, answer["text"])
        choice, usage = answer["body"]["choices"][0], answer["body"]["usage"]
        return ((choice["message"]["content"], choice["logprobs"]), usage["prompt_tokens"],
                usage["prompt_tokens_details"]["cached_tokens"])

    def test_recurrent_layers_go_on_where_an_agent_changes_its_prompt(self):
        """An edit of the last message computes what is new and less than 64 tokens more."""
        server = self.serve(QWEN3_5)
        system = {"role": "system", "content": TEXT}
        asked = [system, {"role": "user", "content": "What is on shelf 12? " * 30}]
        first, length, cached = self.chat(server, asked)
        self.assertEqual(cached, 0)
        edited = [system, {"role": "user", "content": "Which shelf has the most seeds? " * 30}]
        _, edited_length, cached = self.chat(server, edited)
        own = edited_length - self.chat(server, [system, {"role": "user", "content": "."}])[1]
        self.assertGreater(cached, edited_length - own - 64 - 16)
        again, _, cached = self.chat(server, asked)
        self.assertEqual(again, first)
        self.assertGreaterEqual(cached, length - 65)

    def test_a_restore_is_much_faster_than_computing(self):
        server = self.serve()
        begin = time.monotonic()
        self.ask(server, TEXT, max_tokens=1)
        cold = time.monotonic() - begin
        cache_steps.flush(server.port)
        server.kill()
        server = self.serve()
        begin = time.monotonic()
        _, details, _, _ = self.ask(server, TEXT, max_tokens=1)
        warm = time.monotonic() - begin
        self.assertGreater(details["cached_tokens_disk"], 1000)
        self.assertLess(warm, cold / 5, f"cold {cold:.2f} s, restored {warm:.2f} s")

    def test_kill_9_in_the_middle_of_serving_loses_the_end_at_most(self):
        server = self.serve()
        cold, _, _, _ = self.ask(server, TEXT)
        cache_steps.flush(server.port)
        request = completion(TEXT + "And then", max_tokens=600, ignore_eos=True, stream=True)
        http_client.send(server.port, request, close_after_events=40)
        server.kill()
        server = self.serve()
        warm, details, _, _ = self.ask(server, TEXT)
        self.assertEqual(warm["logprobs"], cold["logprobs"])
        self.assertGreater(details["cached_tokens_disk"], 1000)
        leftovers = list(pathlib.Path(self.folder.name).rglob("*.tmp"))
        self.assertEqual(leftovers, [])

    def test_two_servers_share_a_directory(self):
        one = self.serve()
        two = self.serve()
        cold, _, _, _ = self.ask(one, TEXT)
        same, _, _, _ = self.ask(two, TEXT)
        self.assertEqual(same["logprobs"], cold["logprobs"])
        cache_steps.flush(one.port)
        cache_steps.flush(two.port)
        cache_steps.clear(one.port, "all")
        cache_steps.clear(two.port, "memory")
        again, details, _, _ = self.ask(two, TEXT)
        self.assertEqual(again["logprobs"], cold["logprobs"])
        self.assertEqual(details["cached_tokens"], 0, "the other server removed the files")

    def test_keys_do_not_share(self):
        server = self.serve(SMOLLM2, "--api-key", "one", "--api-key", "two")
        request = completion(TEXT)
        cached = []
        for key in ("one", "two", "one"):
            answer = http_client.send(server.port, {**request, "headers": {"Authorization": f"Bearer {key}"}})
            cached.append(answer["body"]["usage"]["prompt_tokens_details"]["cached_tokens"])
        self.assertEqual(cached[:2], [0, 0])
        self.assertGreater(cached[2], 1000)

    def command(self, *arguments):
        answer = subprocess.run([BINARY, "cache", *arguments, "--ssd-cache-dir", f"{self.folder.name}/kv", "--json"],
                                capture_output=True, text=True, timeout=120, check=False)
        return answer.returncode, json.loads(answer.stdout) if answer.stdout else answer.stderr

    def test_the_cache_command_beside_a_server_that_runs(self):
        self.assertEqual(self.command("ls")[0], 1, "there is no directory yet")
        server = self.serve()
        cold, _, _, _ = self.ask(server, TEXT)
        cache_steps.flush(server.port)
        _, listed = self.command("ls")
        self.assertEqual([space["model"] for space in listed], ["m"])
        self.assertGreater(listed[0]["blocks"], 20)
        self.assertEqual(self.command("verify"), (0, {"files": listed[0]["files"], "bytes": listed[0]["bytes"],
                                                      "damaged": [], "unreadable": []}))
        self.assertEqual(self.command("gc", "--ssd-cache-max-gb", "0", "--dry-run")[1]["files"], listed[0]["files"])
        self.assertEqual(self.command("stats")[1]["bytes"], listed[0]["bytes"])

        copy = f"{self.folder.name}/copy"
        self.assertEqual(self.command("export", copy)[0], 0)
        self.assertEqual(self.command("clear")[1]["files"], listed[0]["files"])
        cache_steps.clear(server.port, "memory")
        same, details, _, _ = self.ask(server, TEXT)
        self.assertEqual(same["logprobs"], cold["logprobs"])
        self.assertEqual(details["cached_tokens"], 0, "the files are gone")
        server.kill()
        self.command("clear")
        self.assertEqual(self.command("import", copy)[0], 0)
        warm, details, _, _ = self.ask(self.serve(), TEXT)
        self.assertEqual(warm["logprobs"], cold["logprobs"])
        self.assertGreater(details["cached_tokens_disk"], 1000)

    def test_the_directory_is_private(self):
        server = self.serve()
        self.ask(server, "Hello", max_tokens=1)
        self.assertEqual(os.stat(f"{self.folder.name}/kv").st_mode & 0o777, 0o700)


if __name__ == "__main__":
    unittest.main(verbosity=2)
