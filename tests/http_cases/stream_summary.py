"""What a server-sent stream amounts to, under the names that the cases use (stream.*)."""

import json


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


def summarize_chat(chunks):
    """Of a chat or text completion."""
    content, reasoning, calls, finish_values, usage, first_tool_delta = "", "", {}, [], None, None
    for chunk in chunks:
        usage = chunk.get("usage") or usage
        for choice in chunk.get("choices") or []:
            delta = choice.get("delta") or {}
            content += delta.get("content") or choice.get("text") or ""
            reasoning += delta.get("reasoning_content") or ""
            finish_values.append(choice.get("finish_reason"))
            for call in delta.get("tool_calls") or []:
                first_tool_delta = first_tool_delta or call
                merged = calls.setdefault(call["index"], {"id": None, "function": {"name": "", "arguments": ""}})
                merged["id"] = call.get("id") or merged["id"]
                for key in ("name", "arguments"):
                    merged["function"][key] += (call.get("function") or {}).get(key) or ""
    return {
        "chunks": chunks,
        "content": content,
        "reasoning": reasoning,
        "tool_calls": [calls[i] for i in sorted(calls)],
        "first_tool_delta": first_tool_delta,
        "finish_values": finish_values,
        "finish_reasons": [v for v in finish_values if v is not None],
        "usage": usage,
    }


def summarize_messages(events):
    """Of Anthropic's /v1/messages."""
    blocks, starts, delta_types, start, end = {}, [], {}, None, None
    for event in events:
        kind, index = event["type"], event.get("index")
        if kind == "message_start":
            start = event["message"]
        elif kind == "message_delta":
            end = event
        elif kind == "content_block_start":
            starts.append(index)
            block = blocks[index] = dict(event["content_block"])
            if block["type"] == "tool_use":
                block["input"] = ""
        elif kind == "content_block_delta":
            delta, block = event["delta"], blocks[index]
            delta_types.setdefault(index, []).append(delta["type"])
            for field in ("text", "thinking", "signature"):
                if field in delta:
                    block[field] = block.get(field, "") + delta[field]
            block["input"] = block.get("input", "") + delta.get("partial_json", "")
            if block["type"] != "tool_use":
                del block["input"]
        elif kind == "content_block_stop" and blocks[index]["type"] == "tool_use":
            try:
                blocks[index]["input"] = json.loads(blocks[index]["input"] or "{}")
            except ValueError:
                pass  # cut off by max_tokens
    ordered = [blocks[i] for i in starts]
    return {
        "message_start": start,
        "message_delta": end,
        "stop_reason": ((end or {}).get("delta") or {}).get("stop_reason"),
        "blocks": ordered,
        "block_starts": starts,
        "block_indexes": starts,
        "block_types": [b["type"] for b in ordered],
        "delta_types": [delta_types.get(i, []) for i in starts],
        "text": "".join(b.get("text", "") for b in ordered),
    }


def summarize_responses(events):
    """Of OpenAI's /v1/responses."""
    added = {e["output_index"]: e["item"]["id"] for e in events if e["type"] == "response.output_item.added"}
    done = [e["item"] for e in events if e["type"] == "response.output_item.done"]
    named = [(e["output_index"], e["item_id"]) for e in events if "item_id" in e]
    named += [(e["output_index"], e["item"]["id"]) for e in events if e["type"] == "response.output_item.done"]
    deltas = [e["delta"] for e in events if e["type"] == "response.output_text.delta"]
    last = events[-1].get("response") or {}
    return {
        "output": done,
        "text": "".join(deltas),
        "deltas": deltas,
        "completed": last if events[-1]["type"] == "response.completed" else None,
        "usage": last.get("usage"),
        "item_ids_consistent": all(added.get(index) == item_id for index, item_id in named),
        "sequence_numbers": [e.get("sequence_number") for e in events],
    }


def summarize(raw, max_silence_s):
    """`raw`: the whole stream; `max_silence_s`: the longest time in which nothing came."""
    events = parse_events(raw)
    datas = [data for _, data in events if data and data != "[DONE]"]
    values = [json.loads(data) for data in datas]
    names = [name for name, _ in events if name]
    summary = {
        "raw": raw,
        "done": any(data == "[DONE]" for _, data in events),
        "events": names,
        "first_event": names[0] if names else None,
        "event_names_match_types": names == [v.get("type") for v in values],
        "max_silence_seconds": max_silence_s,
    }
    if any(name in ("message_start", "message_stop") for name in names):
        return {**summary, **summarize_messages(values)}
    if any(name.startswith("response.") for name in names):
        return {**summary, **summarize_responses(values)}
    return {**summary, **summarize_chat(values)}
