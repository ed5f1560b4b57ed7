"""Installs the pinned agents of versions.json with npm: install_agents.py DIR [agent...]

Each goes into a folder of its own, DIR/<agent>, and is kept while its version is the same. Exits with 77 (ctest:
skipped) when there is no npm or its registry cannot be reached.
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys

VERSIONS = json.loads((pathlib.Path(__file__).parent / "versions.json").read_text())
SKIPPED = 77


class Unavailable(Exception):
    """npm or its registry is not there; the text says which."""


def is_installed(folder, package):
    stamp = folder / "installed"
    return stamp.exists() and stamp.read_text() == package


def install(root, agent):
    folder, package = root / agent, VERSIONS[agent]
    if is_installed(folder, package):
        return
    npm = shutil.which("npm")
    if npm is None:
        raise Unavailable("there is no npm, which installs the agents")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    print(f"installing {package}", flush=True)
    # npm takes the version that the node in PATH can run: the pinned one.
    path = f"{root / 'node/node_modules/.bin'}:{pathlib.Path(npm).parent}:/usr/bin:/bin"
    run = subprocess.run([npm, "install", "--no-fund", "--no-audit", "--loglevel=error", "--prefix", str(folder), package],
                         env={"HOME": str(root / "npm_home"), "PATH": path, **npm_settings()},
                         capture_output=True, text=True, check=False)
    if run.returncode != 0:
        raise Unavailable(f"npm cannot install {package}: {run.stderr.strip()[-500:]}")
    (folder / "installed").write_text(package)


def npm_settings():
    """The user's own registry, proxy and certificates, which a HOME of its own would hide."""
    wanted = ("npm_config_", "http_proxy", "https_proxy", "no_proxy", "node_extra_ca_certs", "ssl_cert_file")
    settings = {name: value for name, value in os.environ.items() if name.lower().startswith(wanted)}
    user = pathlib.Path.home() / ".npmrc"
    if user.exists():
        settings.setdefault("npm_config_userconfig", str(user))
    return settings


def main():
    root = pathlib.Path(sys.argv[1]).resolve()
    try:
        for agent in ["node", *(sys.argv[2:] or [name for name in VERSIONS if name != "node"])]:
            install(root, agent)
    except Unavailable as problem:
        print(f"skipped: {problem}")
        sys.exit(SKIPPED)


if __name__ == "__main__":
    main()
