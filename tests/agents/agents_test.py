"""Real agents against the real program: agents_test.py PROGRAMS FOLDER [AGENT[:API]...]

Each agent, as npm has it, holds a session of three turns over each API that it knows: it calls tools that write a
file, and is started anew for each turn and continues. The replies are forced ones (--force-replies), so a tiny random
model will do; all else is as with a clever one. Of each request the server must have reused at least everything up
to what the agent or the model's template changed. Prints a table of that in the form that docs/agents.md has.

PROGRAMS is the folder of install_agents.py; FOLDER is made anew for homes, logs and the model.
"""

import json
import pathlib
import shutil
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "end_to_end"))
import install_agents  # noqa: E402
from clients import CLIENTS, CONTEXT  # noqa: E402
from support import BINARY, ROOT, ServerProcess, http_client  # noqa: E402

MODEL = "local-coder"
BLOCK = 64
# What a client or the template may have changed where a prompt parts from the one before. Anything else is a fault
# of ours.
EXCUSED = {
    # Qwen3's template shows the reasoning of the last turn only.
    "*": {"the template leaves out earlier reasoning"},
    # It moves a message about its own state to the end of each request.
    "openclaw": {"the last message changed"},
}


def call(name, arguments):
    """A call as the template of Qwen3 prints it."""
    text = json.dumps({"name": name, "arguments": arguments}, ensure_ascii=False)
    return f"<tool_call>\n{text}\n</tool_call>"


def think(text):
    return f"<think>\n{text}\n</think>\n\n"


def run(client, command):
    return call(client.shell, client.shell_arguments(command))


def written(client, path, text):
    """The call that writes a new file."""
    if client.write is None:
        return run(client, f"printf '%s' '{text}' > {path}")
    return call(client.write, {client.write_path: str(path), client.write_text: text})


def script(client, work):
    """(prompt, the turn's replies, what the note says after it) of each turn of a client in the folder `work`."""
    whole = "a lamp and a key (n\u00ba 7)"
    size = len(whole.encode())
    return [
        ("Write a note about the lamp.",
         [think("A note. I use the tool.") + "I write it.\n" + written(client, work / "note.txt", "a lamp"),
          "The note is written."],
         "a lamp"),
        ("Now add the key.",
         [run(client, "printf '%s' ' and a key (n\u00ba 7)' >> note.txt") + "\n" + run(client, "ls"), "The key is added."],
         whole),
        ("How long is it?",
         [think("I have to count.") + run(client, "wc -c < note.txt > size.txt && cat size.txt"),
          think(f"{size}, it says.") + f"It has {size} bytes."],
         whole),
    ]


class Agents(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.model = FOLDER / "model"
        config = json.dumps({"max_position_embeddings": CONTEXT})
        subprocess.run([sys.executable, str(ROOT / "tools/model_factory"), "--family", "qwen3", "--format", "hf",
                        "--config", config, "--out", str(cls.model)], check=True)
        print("| agent | API | turn | sent | reused | computed | why not all |\n|---|---|---|---|---|---|---|", flush=True)

    def hold_session(self, name, api):
        folder = FOLDER / f"{name}-{api}"
        folder.mkdir()
        client_type = CLIENTS[name]
        turns = script(client_type, folder / "work")
        # opencode asks for a title beside its first request; the other replies go to the rest in their order.
        replies = [{"when": "Generate a title for this conversation", "text": "A note"},
                   *(reply for _, texts, _ in turns for reply in texts)]
        forced = folder / "replies.json"
        forced.write_text(json.dumps(replies))
        server = ServerProcess(BINARY, str(self.model), MODEL, extra=("--force-replies", str(forced)))
        try:
            client = client_type(PROGRAMS, folder, f"http://127.0.0.1:{server.port}", MODEL, api)
            rows, seen = [], 0
            for number, (prompt, texts, content) in enumerate(turns, 1):
                done, output = client.turn(prompt, is_continued=number > 1)
                (folder / f"turn{number}.log").write_text(output)
                where = f"{name} {api} turn {number}: {output[-3000:]}\n{''.join(server.lines[-15:])}"
                self.assertTrue(done, where)
                self.assertEqual((client.work / "note.txt").read_text(), content, where)
                self.assertIn(texts[-1].split("\n")[-1], output, where)
                lines = self.requests(server)
                for line in lines[seen:]:
                    line["turn"] = number
                rows += lines[seen:]
                seen = len(lines)
            size = len((client.work / "note.txt").read_bytes())
            self.assertEqual(int((client.work / "size.txt").read_text()), size)
        finally:
            (folder / "server.log").write_text("".join(server.lines))
            server.stop()
        self.check_reuse(name, api, rows)

    def requests(self, server):
        log = http_client.send(server.port, {"method": "GET", "path": "/v1/cache/requests", "headers": {}})
        return list(reversed(log["body"]["data"]))

    def check_reuse(self, name, api, rows):
        (FOLDER / f"{name}-{api}" / "requests.json").write_text(json.dumps(rows, indent=1))
        excused = EXCUSED["*"] | EXCUSED.get(name, set())
        before = None
        for row in rows:
            parted = row["divergence"] or {}
            print(f"| {name} | {api} | {row['turn']} | {row['prompt_tokens']} | "
                  f"{row['from_memory'] + row['from_disk']} | {row['computed']} | {parted.get('cause', '')} |", flush=True)
            reused = row["from_memory"] + row["from_disk"]
            if before is None or parted.get("cause") in ("the first request", "no recent request begins like this"):
                before = row
                continue
            with self.subTest(f"{name} {api}", row=row):
                if parted:
                    self.assertIn(parted["cause"], excused)
                    self.assertGreater(reused + BLOCK, parted["token"])
                else:
                    self.assertGreater(reused + BLOCK, before["prompt_tokens"])
            before = row


def add_tests(wanted):
    for name, client in CLIENTS.items():
        for api in client.apis:
            if not wanted or name in wanted or f"{name}:{api}" in wanted:
                def test(self, name=name, api=api):
                    self.hold_session(name, api)
                setattr(Agents, f"test_{name}_{api}", test)


if __name__ == "__main__":
    PROGRAMS, FOLDER = (pathlib.Path(path).resolve() for path in sys.argv[1:3])
    names = sys.argv[3:]
    add_tests(names)
    missing = [name for name in {"node", *(n.split(":")[0] for n in names or CLIENTS)}
               if not install_agents.is_installed(PROGRAMS / name, install_agents.VERSIONS[name])]
    if missing:
        print(f"skipped: not installed (install_agents.py): {', '.join(sorted(missing))}")
        sys.exit(install_agents.SKIPPED)
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    unittest.main(argv=sys.argv[:1], verbosity=2)
