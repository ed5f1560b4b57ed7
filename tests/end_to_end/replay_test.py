"""Turns of real agents: of each turn the next one reuses all but what the client changed. Prints how much that was."""

import collections
import json
import pathlib
import re
import sys
import unittest

from support import BINARY, ROOT, ServerCase, http_client

MODEL = sys.argv.pop(1)
REQUESTS = ROOT / "tests/fixtures/agent_requests"
# Tokens that a next turn may compute: tool results, and what clients move or rewrite (see the fixture's files).
MOST_COMPUTED = 512


def turns_by_client():
    clients = collections.defaultdict(list)
    for path in sorted(REQUESTS.glob("*.json")):
        clients[re.fullmatch(r"(.*)-turn\d+", path.stem)[1]].append(json.loads(path.read_text()))
    return clients


def path_of(body):
    if "input" in body:
        return "/v1/responses"
    return "/v1/messages" if "system" in body else "/v1/chat/completions"


class Replay(ServerCase):
    MODEL = MODEL
    FLAGS = ("--no-ssd-cache",)

    def ask(self, body):
        body = {**body, "model": self.NAME, "stream": False}
        for field in ("stream_options", "thinking"):  # of a stream; with a budget above our one token
            body.pop(field, None)
        for field in ("max_tokens", "max_output_tokens", "max_completion_tokens"):
            if field in body:
                body[field] = 1
        if path_of(body) == "/v1/responses":
            body["max_output_tokens"] = 1
        answer = http_client.send(self.server.port, {"method": "POST", "path": path_of(body), "headers": {}, "body": body})
        self.assertEqual(answer["status"], 200, answer["text"][:500])
        log = http_client.send(self.server.port, {"method": "GET", "path": "/v1/cache/requests", "headers": {}})
        return log["body"]["data"][0]

    def test_every_turn_reuses_the_one_before(self):
        clients = turns_by_client()
        self.assertGreater(len(clients), 8)
        for client, turns in clients.items():
            for number, body in enumerate(turns, 1):
                line = self.ask(body)
                cause = (line["divergence"] or {}).get("cause", "")
                print(f"{client:20} turn {number}: {line['prompt_tokens']:6} tokens, {line['from_memory']:6} from memory, "
                      f"{line['computed']:6} computed  {cause}")
                self.assertEqual(line["prompt_tokens"], line["from_memory"] + line["from_disk"] + line["computed"])
                if line["divergence"]:
                    # All whole blocks before the change were there.
                    self.assertGreater(line["from_memory"] + 64, line["divergence"]["token"], line)
                    self.assertNotIn("not in the bank", cause)
                if number > 1:
                    self.assertLess(line["computed"], MOST_COMPUTED, f"{client} turn {number}: {line}")


if __name__ == "__main__":
    unittest.main(verbosity=2)
