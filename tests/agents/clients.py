"""How each agent is pointed at a server and asked for one turn. docs/agents.md has the same for people."""

import json
import os
import subprocess

SECRETS = ("ANTHROPIC_", "OPENAI_", "CLAUDE", "CODEX_", "OPENCLAW_", "OPENCODE_", "PI_")
CONTEXT = 98304


def json_lines(text):
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


class Client:
    """One agent in a home and a working folder of its own, talking to `url` over `api`."""

    name = ""
    apis = ()
    # Names of its tools and of their arguments.
    write, write_path, write_text = "write", "path", "content"
    shell, shell_text = "bash", "command"

    def __init__(self, programs, folder, url, model, api):
        self.programs, self.url, self.model, self.api = programs, url, model, api
        self.home, self.work = folder / "home", folder / "work"
        self.home.mkdir(parents=True)
        self.work.mkdir()
        (self.work / "README.md").write_text("A folder to work in.\n")
        git = ["git", "-c", "user.name=t", "-c", "user.email=t@example.invalid"]
        for arguments in (["init", "-q", "-b", "main"], ["add", "-A"], ["commit", "-q", "-m", "begin"]):
            subprocess.run([*git, *arguments], cwd=self.work, env=self.environment(), check=True)
        self.configure()

    def configure(self):
        pass

    def settings(self):
        """Environment variables that the agent itself reads."""
        return {}

    def command(self, prompt, is_continued):
        raise NotImplementedError

    def has_completed(self, output):
        """Does the agent itself say that its turn is complete?"""
        raise NotImplementedError

    @classmethod
    def shell_arguments(cls, command):
        return {cls.shell_text: command}

    def program(self):
        return str(self.programs / self.name / "node_modules/.bin" / self.name)

    def environment(self):
        kept = {k: v for k, v in os.environ.items() if not k.startswith(SECRETS)}
        node = self.programs / "node/node_modules/.bin"
        return {**kept, "PATH": f"{node}:{os.environ['PATH']}", "HOME": str(self.home),
                "XDG_CONFIG_HOME": str(self.home / ".config"), "XDG_DATA_HOME": str(self.home / ".local/share"),
                "XDG_CACHE_HOME": str(self.home / ".cache"), "XDG_STATE_HOME": str(self.home / ".local/state"),
                "PWD": str(self.work), "NO_COLOR": "1", "CI": "1", **self.settings()}

    def turn(self, prompt, is_continued, timeout=300):
        """(whether the turn was completed, all that the agent printed)"""
        try:
            run = subprocess.run(self.command(prompt, is_continued), cwd=self.work, env=self.environment(),
                                 stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
                                 timeout=timeout, check=False)
        except subprocess.TimeoutExpired as late:
            return False, f"not done in {timeout} s: {late.stdout!r} {late.stderr!r}"
        try:
            done = run.returncode == 0 and self.has_completed(run.stdout)
        except (ValueError, KeyError, IndexError, TypeError):
            done = False
        return done, f"{run.stdout}{run.stderr}\nexit status {run.returncode}\n"


class Claude(Client):
    name = "claude"
    apis = ("anthropic",)
    write, write_path = "Write", "file_path"
    shell = "Bash"

    def settings(self):
        models = ("MODEL", "SMALL_FAST_MODEL", "DEFAULT_HAIKU_MODEL", "DEFAULT_SONNET_MODEL", "DEFAULT_OPUS_MODEL")
        return {"ANTHROPIC_BASE_URL": self.url, "ANTHROPIC_AUTH_TOKEN": "none",
                **{f"ANTHROPIC_{name}": self.model for name in models},
                "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1",
                "IS_SANDBOX": "1"}  # it refuses to skip permissions as root otherwise

    def command(self, prompt, is_continued):
        return [self.program(), "-p", *(["--continue"] if is_continued else []), "--model", self.model,
                "--output-format", "json", "--dangerously-skip-permissions", prompt]

    def has_completed(self, output):
        answer = json.loads(output)
        answer = answer[-1] if isinstance(answer, list) else answer
        return answer["subtype"] == "success" and not answer["is_error"]


class Codex(Client):
    name = "codex"
    apis = ("responses",)
    write = None  # its shell writes
    shell, shell_text = "exec_command", "cmd"

    def settings(self):
        return {"CODEX_HOME": str(self.home / "codex"), "LOCAL_KEY": "none"}

    def configure(self):
        folder = self.home / "codex"
        folder.mkdir()
        (folder / "config.toml").write_text(f"""
model = "{self.model}"
model_provider = "emberbank"
model_context_window = {CONTEXT}
approval_policy = "never"
sandbox_mode = "danger-full-access"
check_for_update_on_startup = false
[analytics]
enabled = false
[model_providers.emberbank]
name = "Emberbank"
base_url = "{self.url}/v1"
env_key = "LOCAL_KEY"
wire_api = "responses"
[projects."{self.work}"]
trust_level = "trusted"
""")

    def command(self, prompt, is_continued):
        return [self.program(), "exec", *(["resume", "--last"] if is_continued else []), "--json",
                "--skip-git-repo-check", prompt]

    def has_completed(self, output):
        return any(event["type"] == "turn.completed" for event in json_lines(output))


class OpenCode(Client):
    name = "opencode"
    apis = ("chat", "responses", "anthropic")
    write_path = "filePath"

    def settings(self):
        return {"OPENCODE_DISABLE_AUTOUPDATE": "1", "OPENCODE_DISABLE_MODELS_FETCH": "1",
                "OPENCODE_DISABLE_LSP_DOWNLOAD": "1", "OPENCODE_DISABLE_DEFAULT_PLUGINS": "1"}

    def configure(self):
        package = {"chat": "@ai-sdk/openai-compatible", "responses": "@ai-sdk/openai", "anthropic": "@ai-sdk/anthropic"}
        model = f"emberbank/{self.model}"
        folder = self.home / ".config/opencode"
        folder.mkdir(parents=True)
        (folder / "opencode.json").write_text(json.dumps({
            "autoupdate": False, "share": "disabled", "model": model, "small_model": model,
            "permission": {"*": "allow"}, "enabled_providers": ["emberbank"],
            "provider": {"emberbank": {
                "npm": package[self.api], "name": "Emberbank",
                "options": {"baseURL": f"{self.url}/v1", "apiKey": "none"},
                "models": {self.model: {"name": self.model, "tool_call": True, "reasoning": True,
                                        "limit": {"context": CONTEXT, "output": 8192}}}}}}))

    @classmethod
    def shell_arguments(cls, command):
        return {"command": command, "description": "Runs a command"}

    def command(self, prompt, is_continued):
        return [self.program(), "run", *(["--continue"] if is_continued else []), "--model",
                f"emberbank/{self.model}", "--format", "json", prompt]

    def has_completed(self, output):
        events = json_lines(output)
        steps = [event for event in events if event["type"] == "step_finish"]
        return (not any(event["type"] == "error" for event in events)
                and steps[-1]["part"]["reason"] == "stop" and any(event["type"] == "text" for event in events))


class OpenClaw(Client):
    name = "openclaw"
    apis = ("chat", "responses", "anthropic")
    shell = "exec"

    def settings(self):
        return {"OPENCLAW_STATE_DIR": str(self.home / "openclaw"),
                "OPENCLAW_CONFIG_PATH": str(self.home / "openclaw.json")}

    def configure(self):
        (self.home / "openclaw").mkdir()
        api = {"chat": "openai-completions", "responses": "openai-responses", "anthropic": "anthropic-messages"}
        model = {"id": self.model, "name": self.model, "reasoning": True, "input": ["text"], "contextWindow": CONTEXT,
                 "maxTokens": 8192, "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0}}
        (self.home / "openclaw.json").write_text(json.dumps({
            "agents": {"defaults": {"model": {"primary": f"emberbank/{self.model}"}, "workspace": str(self.work)}},
            "models": {"mode": "replace", "providers": {"emberbank": {
                "baseUrl": self.url if self.api == "anthropic" else f"{self.url}/v1", "apiKey": "none",
                "api": api[self.api], "timeoutSeconds": 300, "models": [model]}}}}))

    def command(self, prompt, is_continued):  # the session's id continues it
        return [self.program(), "agent", "--local", "--agent", "main", "--session-id", "s1", "--message", prompt,
                "--json", "--timeout", "300"]

    def has_completed(self, output):
        answer = json.loads(output)
        meta = answer.get("meta", {})
        return bool(answer.get("payloads")) and not meta.get("error") and not meta.get("aborted")


class Pi(Client):
    name = "pi"
    apis = ("chat", "responses", "anthropic")

    def settings(self):
        return {"PI_CODING_AGENT_DIR": str(self.home / "pi"), "PI_OFFLINE": "1", "PI_TELEMETRY": "0"}

    def configure(self):
        (self.home / "pi").mkdir()
        api = {"chat": "openai-completions", "responses": "openai-responses", "anthropic": "anthropic-messages"}
        model = {"id": self.model, "name": self.model, "reasoning": True, "input": ["text"], "contextWindow": CONTEXT,
                 "maxTokens": 8192, "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0}}
        (self.home / "pi/models.json").write_text(json.dumps({"providers": {"emberbank": {
            "baseUrl": self.url if self.api == "anthropic" else f"{self.url}/v1", "api": api[self.api],
            "apiKey": "none", "models": [model]}}}))

    def command(self, prompt, is_continued):
        return [self.program(), "-p", "--mode", "json", *(["--continue"] if is_continued else []),
                "--provider", "emberbank", "--model", self.model, prompt]

    def has_completed(self, output):
        messages = [event["message"] for event in json_lines(output)
                    if event["type"] == "message_end" and event["message"]["role"] == "assistant"]
        return messages[-1]["stopReason"] == "stop"


CLIENTS = {client.name: client for client in (Claude, Codex, OpenCode, OpenClaw, Pi)}
