"""Sends one request of a case and keeps all that its assertions may ask for."""

import http.client
import json
import time

import stream_summary

TIMEOUT_S = 300


def encode_body(request):
    if request.get("raw_body_hex") is not None:
        return bytes.fromhex(request["raw_body_hex"])
    if request.get("raw_body") is not None:
        return request["raw_body"].encode("utf-8", "surrogatepass")
    if request.get("body") is None:
        return b""
    return json.dumps(request["body"], ensure_ascii=False).encode()


def send(port, request, extra_headers=None, close_after_events=None, close_after_ms=None):
    """Sends `request` and returns {status, headers, body, text, stream, ttft}; ttft in seconds, to the first body byte
    (of a stream: to the first event). With close_after_*, the connection is closed early and {} is returned."""
    body = encode_body(request)
    headers = {"Content-Type": "application/json", **(request.get("headers") or {}), **(extra_headers or {})}
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_S)
    begin = time.monotonic()
    try:
        try:
            connection.putrequest(request["method"], request["path"],
                                  skip_host=any(k.lower() == "host" for k in headers))
            for key, value in {**headers, "Content-Length": str(len(body))}.items():
                connection.putheader(key, value)
            connection.endheaders()
            connection.send(body)
        except (BrokenPipeError, ConnectionResetError):
            pass  # a server may answer (413) and close before the whole body is sent
        if close_after_ms is not None:
            time.sleep(close_after_ms / 1000)
            return {}
        answer = connection.getresponse()
        result = {"status": answer.status, "headers": {k.lower(): v for k, v in answer.getheaders()}}
        pieces, ttft, last, silence = [], None, begin, 0.0
        while piece := answer.read1(65536):
            now = time.monotonic()
            last, silence = now, max(silence, now - last)
            if ttft is None and piece.strip() and not piece.startswith(b":"):
                ttft = time.monotonic() - begin
            pieces.append(piece)
            if close_after_events is not None and b"".join(pieces).count(b"\n\n") >= close_after_events:
                return {}
    finally:
        connection.close()
    text = b"".join(pieces).decode("utf-8", "replace")
    result.update(text=text, ttft=ttft, body=None, stream=None)
    if "text/event-stream" in result["headers"].get("content-type", ""):
        result["stream"] = stream_summary.summarize(text, silence)
    else:
        try:
            result["body"] = json.loads(text)
        except ValueError:
            pass
    usage = (result["body"] or {}).get("usage") if isinstance(result["body"], dict) else None
    if usage and "cache_read_input_tokens" in usage:  # Anthropic counts cached tokens apart
        fields = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
        result["total_input"] = sum(usage[f] for f in fields)
    return result
