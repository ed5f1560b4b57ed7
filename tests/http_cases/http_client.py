"""Sends one request of a case and keeps all that its assertions may ask for."""

import http.client
import json
import time

TIMEOUT_S = 300


def parse_events(raw):
    """The events of a server-sent stream: [(name or None, data)], comments left out."""
    events = []
    for block in raw.replace("\r\n", "\n").split("\n\n"):
        name, data = None, []
        for line in block.split("\n"):
            if line.startswith("event:"):
                name = line[6:].strip()
            elif line.startswith("data:"):
                data.append(line[5:].removeprefix(" "))
        if name or data:
            events.append((name, "\n".join(data)))
    return events


def summarize_chat_stream(raw):
    """Sums over the chunks of a chat or text completion stream, under the names the cases use."""
    chunks, done = [], False
    for _, data in parse_events(raw):
        if data == "[DONE]":
            done = True
        elif data:
            chunks.append(json.loads(data))
    content, reasoning, calls, finish_values, usage = "", "", {}, [], None
    for chunk in chunks:
        usage = chunk.get("usage") or usage
        for choice in chunk.get("choices") or []:
            delta = choice.get("delta") or {}
            content += delta.get("content") or choice.get("text") or ""
            reasoning += delta.get("reasoning_content") or ""
            finish_values.append(choice.get("finish_reason"))
            for call in delta.get("tool_calls") or []:
                merged = calls.setdefault(call["index"], {"id": None, "function": {"name": "", "arguments": ""}})
                merged["id"] = call.get("id") or merged["id"]
                for key in ("name", "arguments"):
                    merged["function"][key] += (call.get("function") or {}).get(key) or ""
    return {
        "raw": raw,
        "chunks": chunks,
        "done": done,
        "content": content,
        "reasoning": reasoning,
        "tool_calls": [calls[i] for i in sorted(calls)],
        "finish_values": finish_values,
        "finish_reasons": [v for v in finish_values if v is not None],
        "usage": usage,
        "events": [name for name, _ in parse_events(raw) if name],
    }


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
        pieces, ttft = [], None
        while piece := answer.read1(65536):
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
        result["stream"] = summarize_chat_stream(text)
    else:
        try:
            result["body"] = json.loads(text)
        except ValueError:
            pass
    return result
