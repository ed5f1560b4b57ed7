"""The shared tier through the real program and a real redis-server: a second machine starts warm, and a server that
is killed, hangs, is full or holds other bytes costs time at most, never a token."""

import sys
import tempfile
import threading
import time
import unittest

from redis_server import RedisServer
from support import BINARY, GEMMA3, QWEN3_5, SMOLLM2, ServerProcess, http_client

TEXT = "".join(f"Shelf {i} holds {i * 7 % 97} jars of seeds and a small brass key. " for i in range(130))


class SharedCache(unittest.TestCase):
    def redis(self, *flags):
        server = RedisServer(*flags)
        self.addCleanup(server.stop)
        return server

    def serve(self, url, model=SMOLLM2, flags=()):
        """A server with an empty disk, as on a new machine."""
        folder = tempfile.TemporaryDirectory(prefix="emberbank-shared-")
        self.addCleanup(folder.cleanup)
        server = ServerProcess(BINARY, model, "m", extra=("--ssd-cache-dir", f"{folder.name}/kv", "--cache-remote", url,
                                                           *flags))
        self.addCleanup(server.stop)
        return server

    def url(self, redis):
        return f"redis://127.0.0.1:{redis.port}/0"

    def ask(self, server, prompt=TEXT, key=None, **more):
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        body = {"prompt": prompt, "temperature": 0, "max_tokens": 8, "logprobs": 5, **more}
        answer = http_client.send(server.port, {"method": "POST", "path": "/v1/completions", "headers": headers,
                                                "body": body})
        self.assertEqual(answer["status"], 200, answer["text"])
        return answer["body"]["choices"][0], answer["body"]["usage"]["prompt_tokens_details"]

    def stats(self, server):
        answer = http_client.send(server.port, {"method": "GET", "path": "/v1/cache/stats", "headers": {}})
        return answer["body"]["models"][0]["remote"]

    def wait_until_written(self, server, blocks):
        deadline = time.monotonic() + 30
        while True:
            stats = self.stats(server)
            if stats["written_blocks"] >= blocks and stats["pending_write_bytes"] == 0:
                return stats
            self.assertLess(time.monotonic(), deadline, stats)
            time.sleep(0.1)
            self.ask(server, "Hello", max_tokens=1)  # the counters are those of the last step

    def check_warm_start(self, model):
        redis = self.redis()
        first = self.serve(self.url(redis), model)
        cold, details = self.ask(first)
        self.assertEqual(details["cached_tokens"], 0)
        self.wait_until_written(first, 20)
        first.kill()
        second = self.serve(self.url(redis), model)
        warm, details = self.ask(second)
        self.assertEqual(warm["text"], cold["text"])
        self.assertEqual(warm["logprobs"], cold["logprobs"], "logits differ after a restore")
        self.assertGreater(details["cached_tokens_remote"], 1000)
        self.assertEqual(details["cached_tokens_remote"], details["cached_tokens"])
        self.assertEqual(self.ask(second)[1]["cached_tokens_remote"], 0, "now from memory")
        self.assertEqual(self.ask(second)[0]["logprobs"], cold["logprobs"])

    def test_a_second_machine_starts_warm(self):
        self.check_warm_start(SMOLLM2)

    def test_sliding_windows_come_too(self):
        self.check_warm_start(GEMMA3)

    def test_recurrent_states_come_too(self):
        self.check_warm_start(QWEN3_5)

    def test_values_have_a_time_to_live(self):
        redis = self.redis()
        server = self.serve(self.url(redis), flags=("--cache-remote-ttl", "3"))
        self.ask(server)
        self.wait_until_written(server, 20)
        self.assertGreater(int(redis.call("dbsize")), 20)
        time.sleep(4)
        self.assertEqual(self.ask(self.serve(self.url(redis)))[1]["cached_tokens"], 0)

    def test_keys_do_not_share(self):
        redis = self.redis()
        flags = ("--api-key", "one", "--api-key", "two")
        first = self.serve(self.url(redis), flags=flags)
        self.ask(first, key="one")
        time.sleep(2)
        second = self.serve(self.url(redis), flags=flags)
        self.assertEqual(self.ask(second, key="two")[1]["cached_tokens"], 0)
        self.assertGreater(self.ask(second, key="one")[1]["cached_tokens_remote"], 1000)

    def test_a_password_and_another_database(self):
        redis = self.redis("--requirepass", "swordfish")
        url = f"redis://:swordfish@127.0.0.1:{redis.port}/3"
        first = self.serve(url)
        self.ask(first)
        self.wait_until_written(first, 20)
        self.assertEqual(int(redis.call("-n", "0", "dbsize", password="swordfish")), 0)
        self.assertGreater(self.ask(self.serve(url))[1]["cached_tokens_remote"], 1000)
        wrong = self.serve(f"redis://:herring@127.0.0.1:{redis.port}/3")
        self.assertEqual(self.ask(wrong)[1]["cached_tokens"], 0)
        self.assertGreater(self.stats(wrong)["errors"], 0)
        self.assertNotIn("herring", "".join(wrong.lines))
        self.assertNotIn("herring", str(self.stats(wrong)))

    def test_a_server_killed_in_the_middle_costs_time_only(self):
        redis = self.redis()
        first = self.serve(self.url(redis))
        cold, _ = self.ask(first)
        self.wait_until_written(first, 20)
        for delay in (0, 0.002, 0.01, 0.03, 0.1):
            second = self.serve(self.url(redis))
            killer = threading.Timer(delay, redis.kill)
            killer.start()
            warm, _ = self.ask(second)
            killer.join()
            self.assertEqual(warm["logprobs"], cold["logprobs"])
            self.assertEqual(self.ask(second)[0]["logprobs"], cold["logprobs"])
            redis.start()  # empty
            third = self.serve(self.url(redis))
            self.ask(third)
            self.wait_until_written(third, 20)
            self.assertEqual(second.stop(), 0)
            self.assertEqual(third.stop(), 0)

    def test_a_server_that_hangs_costs_a_time_out(self):
        redis = self.redis()
        first = self.serve(self.url(redis))
        cold, _ = self.ask(first)
        self.wait_until_written(first, 20)
        second = self.serve(self.url(redis))
        redis.pause()
        begin = time.monotonic()
        warm, details = self.ask(second)
        self.assertEqual(warm["logprobs"], cold["logprobs"])
        self.assertEqual(details["cached_tokens"], 0)
        self.assertGreater(self.stats(second)["timeouts"], 0)
        begin = time.monotonic()
        self.ask(second, "Hello", max_tokens=1)
        self.assertLess(time.monotonic() - begin, 2)
        begin = time.monotonic()
        self.assertEqual(second.stop(), 0)
        self.assertLess(time.monotonic() - begin, 15)

    def test_wrong_bytes_are_found_and_replaced(self):
        redis = self.redis()
        first = self.serve(self.url(redis))
        cold, _ = self.ask(first)
        self.wait_until_written(first, 20)
        for name in redis.call("keys", "emberbank:1:*").split():
            redis.call("setrange", name, "70000", "wrong")
        second = self.serve(self.url(redis))
        warm, details = self.ask(second)
        self.assertEqual(warm["logprobs"], cold["logprobs"])
        self.assertEqual(details["cached_tokens"], 0)
        self.assertGreater(self.stats(second)["damaged_blocks"], 0)

    def test_a_full_server_refuses_and_is_left_alone(self):
        redis = self.redis("--maxmemory", "4mb", "--maxmemory-policy", "noeviction")
        first = self.serve(self.url(redis))
        cold, _ = self.ask(first)
        time.sleep(2)
        self.ask(first, "Hello", max_tokens=1)
        self.assertGreater(self.stats(first)["errors"], 0)
        second = self.serve(self.url(redis))
        warm, _ = self.ask(second)
        self.assertEqual(warm["logprobs"], cold["logprobs"])

    def test_metrics_count_it(self):
        redis = self.redis()
        first = self.serve(self.url(redis))
        self.ask(first)
        self.wait_until_written(first, 20)
        second = self.serve(self.url(redis))
        self.ask(second)
        text = http_client.send(second.port, {"method": "GET", "path": "/metrics", "headers": {}})["text"]
        values = dict(line.rsplit(" ", 1) for line in text.splitlines() if line.startswith("emberbank_remote_"))
        self.assertGreater(float(values['emberbank_remote_prompt_tokens_total{model="m"}']), 1000)
        self.assertEqual(float(values['emberbank_remote_available{model="m"}']), 1)


if __name__ == "__main__":
    sys.exit(unittest.main(verbosity=2))
