#!/usr/bin/env python3
"""Runs HTTP cases (tests/http_cases/cases/*.json) against `emberbank serve`.

    run_cases.py --server build/emberbank --model MODEL [--hf-model DIR] [--cases DIR] [--area a,b] [--only GLOB]

Each case holds requests, steps and assertions; the form is described in README.md. A case that asks for what
the server does not have yet (another model, tool-call parsing, a disk cache) is skipped with its reason; run with
--list to see them. Exit status 1 when a case fails or when none ran.
"""

import argparse
import fnmatch
import json
import pathlib
import re
import sys
import tempfile
import threading
import time

import assertions
import cache_steps
import http_client
from canary import Canary
from model_edit import copy_model
from server_process import FLAGS, ServerProcess, StartFailed, write_script

HERE = pathlib.Path(__file__).resolve().parent
NAME = "test-model"
STEPS = {"start", "send", "send_all", "send_async", "send_many", "send_and_close", "copy_model", "stop", "restart",
         "start_again", "sleep_ms", "kill_9", "replace_model", *cache_steps.STEPS}


def expand(value, variables):
    """{{repeat:N:TEXT}} and $NAMES in every string of `value`."""
    if isinstance(value, str) and value in variables:
        return variables[value]  # of any kind
    if isinstance(value, str):
        value = re.sub(r"\{\{repeat:(\d+):(.*?)\}\}", lambda m: m[2] * int(m[1]), value, flags=re.S)
        for name, text in variables.items():
            if isinstance(text, str):
                value = value.replace(name, text)
        return value
    if isinstance(value, list):
        return [expand(v, variables) for v in value]
    if isinstance(value, dict):
        return {k: expand(v, variables) for k, v in value.items()}
    return value


def vary(request, i, how):
    """A copy of the request; with `how` "prefix", one whose prompt differs from its start on."""
    if how is None:
        return request
    if how != "prefix":
        raise ValueError(f"unknown way to vary {how!r}")
    copy = json.loads(json.dumps(request))
    copy["body"]["messages"][0]["content"] = f"Number {i}. {copy['body']['messages'][0]['content']}"
    return copy


def load_skips(path):
    """{case id: reason} of skipped.txt."""
    lines = path.read_text().splitlines() if path.exists() else []
    return dict(map(str.strip, line.split(":", 1)) for line in lines if line.strip() and not line.startswith("#"))


def reason_to_skip(case, args):
    given = case["input"]
    backend = given.get("backend")
    if given["kind"] == "render":
        return None if args.qwen3 else "needs --qwen3, a model directory with Qwen3's template"
    if case["family"] == "qwen3" and backend == "any" and not args.qwen3:
        return "needs --qwen3, a model directory with Qwen3's template"
    steps = {step["op"] for step in given.get("steps") or []}
    if backend == "two-models" and "replace_model" in steps:
        return None if args.hf_model else "needs --hf-model, other weights than --model's"
    if isinstance(backend, str) and backend not in ("any", "real-small-model", "text-only-model"):
        return f"needs another backend: {backend}"
    for step in given.get("steps") or []:
        if step["op"] not in STEPS:
            return f"needs step {step['op']}"
        unknown = set(step.get("config") or {}) - set(FLAGS) - {"model_dir"}
        if unknown:
            return f"needs setting {', '.join(sorted(unknown))}"
        if step["op"] == "copy_model" and not args.hf_model:
            return "needs --hf-model, a model directory"
    return None


class CaseRun:
    """One case: a server of its own where it asks for settings, else the shared one."""

    def __init__(self, case, args, shared):
        self.case, self.args, self.shared = case, args, shared
        self.answers, self.threads, self.own = {}, [], None
        self.start_error = None
        self.folder = tempfile.TemporaryDirectory(prefix="emberbank-case-")
        self.config = {}
        if "$TMP/readonly" in json.dumps(case):
            cache_steps.make_unwritable(f"{self.folder.name}/readonly")
        self.canary = Canary() if "$CANARY" in json.dumps(case) else None
        # what a family's template does shows on any weights
        by_template = case["family"] == "qwen3" and case["input"].get("backend") == "any"
        self.model = args.qwen3 if by_template else args.model

    def close(self):
        for thread in self.threads:
            thread.join(http_client.TIMEOUT_S)
        if self.own:
            self.own.stop()
        if self.canary:
            self.canary.close()
        self.folder.cleanup()

    def start(self, config, may_fail=False):
        if self.own:
            self.own.stop()
        self.config = config
        script, extra = None, ()
        backend = self.case["input"].get("backend")
        if isinstance(backend, dict):
            script = f"{self.folder.name}/script.json"
            write_script(script, backend)
            if backend.get("format"):
                extra = ("--tool-call-parser", backend["format"])
        variables = self.variables()
        model = expand(config.get("model_dir", self.model), variables)
        try:
            self.own = ServerProcess(self.args.server, model, NAME, expand(config, variables), script, extra)
        except StartFailed as failure:
            if not may_fail:
                raise
            self.start_error = str(failure)

    def variables(self):
        is_free = self.config and not self.own  # about to start its own
        port = 0 if self.start_error or is_free else (self.own or self.shared()).port
        canary = {"$CANARY": str(self.canary.port)} if self.canary else {}
        return {"$MODEL": NAME, "$PORT": str(port), "$TMP": self.folder.name, **canary, **self.earlier()}

    def earlier(self):
        """$r1.content, $r1.tool_calls.0.id ...: parts of earlier chat answers."""
        found = {}
        for name, answer in self.answers.items():
            choices = (answer.get("body") or {}).get("choices") or [{}]
            message = choices[0].get("message") or {}
            found[f"${name}.content"] = message.get("content")
            found[f"${name}.reasoning"] = message.get("reasoning_content")
            found[f"${name}.tool_calls"] = message.get("tool_calls")
            for i, call in enumerate(message.get("tool_calls") or []):
                found[f"${name}.tool_calls.{i}.id"] = call["id"]
        return found

    def send(self, request, name=None, **options):
        if self.start_error:
            return
        request = expand(request, self.variables())
        server = self.own or self.shared()
        self.answers[name or request["id"]] = http_client.send(server.port, request, **options)

    def send_grouped(self, requests):
        """In order; requests of one non-null group at once."""
        done = set()
        for request in requests:
            group = request.get("group")
            if group is None:
                self.send(request)
            elif group not in done:
                done.add(group)
                together = [threading.Thread(target=self.send, args=(r,))
                            for r in requests if r.get("group") == group]
                for thread in together:
                    thread.start()
                for thread in together:
                    thread.join()

    def step(self, step):
        requests = {r["id"]: r for r in self.case["input"].get("requests") or []}
        op = step["op"]
        if op in ("start", "restart", "start_again"):
            kept = {} if op == "start" else self.config
            self.start({**kept, **(step.get("config") or {})}, step.get("may_fail", False))
        elif op == "stop":
            self.own.stop()
        elif op == "kill_9":
            self.own.kill()
        elif op == "replace_model":
            self.model = self.args.hf_model
        elif op in cache_steps.STEPS:
            self.answers.update(cache_steps.run(step, self.own.port, expand(self.config, {"$TMP": self.folder.name})))
        elif op == "sleep_ms":
            time.sleep(step["ms"] / 1000)
        elif op == "copy_model":
            copy_model(self.args.hf_model, f"{self.folder.name}/{step.get('as', 'm')}", step)
        elif op == "send_all":
            self.send_grouped(list(requests.values()))
        elif op == "send_many":
            template = requests[step["template"]]
            threads = [threading.Thread(target=self.send, args=(vary(template, i, step.get("vary")), f"m{i}"))
                       for i in range(step["count"])]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        elif op == "send_async":
            self.threads.append(threading.Thread(target=self.send, args=(requests[step["id"]],)))
            self.threads[-1].start()
            time.sleep(0.3)  # lets it reach the scheduler before the next step
        elif op == "send_and_close":
            self.send(requests[step["id"]], close_after_events=step.get("after_events"),
                      close_after_ms=step.get("after_ms"))
        else:
            self.send(requests[step["id"]], step.get("as"), extra_headers=step.get("headers"))

    def metrics(self):
        text = http_client.send((self.own or self.shared()).port,
                                {"method": "GET", "path": "/metrics", "headers": {}})["text"]
        values = {m[1]: float(m[2]) for m in re.finditer(r"^(\w+)(?:\{[^}]*\})? ([0-9.e+]+)$", text, re.M)}
        return {"active_requests": values["emberbank_requests_running"] + values["emberbank_requests_waiting"],
                "cancelled_in_queue": values["emberbank_requests_cancelled_in_queue_total"]}

    def check(self, assertion):
        if assertion["at"] == "metrics":
            deadline = time.monotonic() + assertion.get("within_s", 0)
            while True:
                problem = assertions.check(assertion, {"metrics": self.metrics()})
                if problem is None or time.monotonic() >= deadline:
                    return problem
                time.sleep(0.05)
        if assertion["at"] == "canary":
            return assertions.check(assertion, {"canary": {"hits": self.canary.hits}})
        if assertion["at"] == "start_or_r1":
            text = self.start_error or json.dumps(self.answers.get("r1", {}).get("body"))
            return None if "safetensors" in text else f"no file named in: {text}"
        return assertions.check(assertion, self.answers)

    def run(self):
        given = self.case["input"]
        if given["kind"] == "render":
            return self.run_render()
        steps = given.get("steps") or []
        needs_own = isinstance(given.get("backend"), dict) or self.model != self.args.model
        if needs_own and not any(s["op"] == "start" for s in steps):
            self.start({})
        for step in steps:
            self.step(step)
        if not steps:
            self.send_grouped(given["requests"])
        return [p for a in self.case["expect"]["asserts"] if (p := self.check(a))]

    def run_render(self):
        """The chat prompt must be the exact text: both endpoints count and continue alike."""
        given, common = self.case["input"], {"model": NAME, "temperature": 0, "max_tokens": 8}
        self.own = ServerProcess(self.args.server, self.args.qwen3, NAME)
        chat = {**common, "messages": given["messages"], "tools": given["tools"],
                "chat_template_kwargs": given["chat_template_kwargs"]}
        prompt = {**common, "prompt": self.case["expect"]["prompt_exact"]}
        for name, path, body in (("r1", "chat/completions", chat), ("r2", "completions", prompt)):
            self.send({"id": name, "method": "POST", "path": f"/v1/{path}", "headers": {}, "body": body})
        checks = [{"at": "r1", "path": "status", "op": "eq", "value": 200},
                  {"at": "r1", "path": "body.usage.prompt_tokens", "op": "eq_ref", "ref": "r2.body.usage.prompt_tokens"},
                  {"at": "r1", "path": "body.choices.0.message.content", "op": "eq_ref",
                   "ref": "r2.body.choices.0.text"}]
        return [p for a in checks if (p := assertions.check(a, self.answers))]


def run_case(case, args, shared):
    run = CaseRun(case, args, shared)
    try:
        return run.run()
    except (OSError, StartFailed) as error:
        return [f"{type(error).__name__}: {error}"]
    finally:
        run.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", required=True, help="the emberbank binary")
    parser.add_argument("--model", required=True, help="a small chat model")
    parser.add_argument("--hf-model", help="the same model as a directory, for cases that edit files")
    parser.add_argument("--qwen3", help="a directory with Qwen3's tokenizer and template, for render cases")
    parser.add_argument("--cases", type=pathlib.Path, default=HERE / "cases")
    parser.add_argument("--area", help="comma-separated areas; default all")
    parser.add_argument("--only", default="*", help="glob over case ids")
    parser.add_argument("--list", action="store_true", help="print what would run or be skipped")
    args = parser.parse_args()

    skips = load_skips(HERE / "skipped.txt")
    servers = []

    def shared():
        if not servers or servers[-1].process.poll() is not None:
            servers.append(ServerProcess(args.server, args.model, NAME))
        return servers[-1]

    passed = failed = skipped = 0
    for path in sorted(args.cases.glob("*.json")):
        case = json.loads(path.read_text(encoding="utf-8"))
        if not fnmatch.fnmatch(case["id"], args.only) or (args.area and case["area"] not in args.area.split(",")):
            continue
        reason = skips.get(case["id"]) or reason_to_skip(case, args)
        if reason or args.list:
            print(f"{'skip' if reason else 'run '} {case['id']}{': ' + reason if reason else ''}")
            skipped += bool(reason)
            continue
        problems = run_case(case, args, shared)
        print(f"{'FAIL' if problems else 'ok  '} {case['id']}", flush=True)
        for problem in problems:
            print(f"       {problem}")
        passed, failed = passed + (not problems), failed + bool(problems)
    for server in servers:
        if server.stop() != 0:
            print(f"FAIL the server exited with status {server.process.returncode}:\n" + "".join(server.lines[-20:]))
            failed += 1
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    sys.exit(1 if failed or not (passed or args.list) else 0)


if __name__ == "__main__":
    main()
