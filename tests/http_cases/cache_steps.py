"""Steps of cases about the bank's tiers: through the server's own cache routes and the files in its directory."""

import os
import pathlib
import time

import http_client

STEPS = {"flush_ssd", "drop_ram_cache", "clear_ssd", "damage_files", "measure_dir"}
FLUSH_TIMEOUT_S = 60


def make_unwritable(path):
    """A place where no directory can be made, even by root: a file."""
    pathlib.Path(path).touch()


def cache_stats(port):
    """The stats of the one model that the server has."""
    answer = http_client.send(port, {"method": "GET", "path": "/v1/cache/stats", "headers": {}})
    return answer["body"]["models"][0]


def flush(port):
    """Waits until all that is to be on disk is there, and the old files are known."""
    deadline = time.monotonic() + FLUSH_TIMEOUT_S
    quiet = 0
    while quiet < 3:  # blocks may be on their way from memory into the queue
        disk = cache_stats(port)["disk"]
        quiet = quiet + 1 if disk["ready"] and disk["pending_write_bytes"] == 0 else 0
        if time.monotonic() > deadline:
            raise OSError(f"the disk cache is never done: {disk}")
        time.sleep(0.05)


def clear(port, tier):
    answer = http_client.send(port, {"method": "DELETE", "path": "/v1/cache", "headers": {}, "body": {"tier": tier}})
    if answer["status"] != 200:
        raise OSError(f"the cache was not cleared: {answer['text']}")


def segments(directory):
    return sorted(p for p in pathlib.Path(directory).rglob("*.safetensors") if p.parent.name != "damaged")


def damage(path, how):
    size = path.stat().st_size
    if how == "truncate_half":
        os.truncate(path, size // 2)
    elif how == "truncate_zero":
        os.truncate(path, 0)
    elif how == "delete":
        path.unlink()
    elif how in ("flip_1_byte_mid", "flip_1_byte_head"):
        with open(path, "r+b") as file:
            place = size // 2 if how.endswith("mid") else 20
            file.seek(place)
            byte = file.read(1)[0]
            file.seek(place)
            file.write(bytes([byte ^ 0x40]))
    else:
        raise ValueError(f"unknown damage {how!r}")


def run(step, port, config):
    """Does the step; returns answers to be asserted on ({name: values})."""
    op, directory = step["op"], config.get("ssd_cache_dir")
    if op == "flush_ssd":
        flush(port)
    elif op == "drop_ram_cache":
        clear(port, "memory")
        flush(port)
    elif op == "clear_ssd":
        clear(port, "disk")
    elif op == "measure_dir":
        files = [p for p in pathlib.Path(directory).rglob("*") if p.is_file()]
        return {step["as"]: {"bytes": sum(p.stat().st_size for p in files), "files": len(files)}}
    else:
        chosen = segments(directory)
        if not chosen:
            raise OSError(f"there is no file to damage in {directory}")
        which = step.get("which", "all")
        for path in {"all": chosen, "first": chosen[:1], "last": chosen[-1:], "one": chosen[:1]}[which]:
            damage(path, step["how"])
    return {}
