"""Checks the assertions of a case against the answers."""

import json
import re

MISSING = object()


def lookup(value, path):
    """The value at a dotted path ("body.choices.0.text"), or MISSING."""
    for key in [k for k in path.split(".") if k]:
        if isinstance(value, list) and re.fullmatch(r"-?\d+", key):
            index = int(key)
            if not -len(value) <= index < len(value):
                return MISSING
            value = value[index]
        elif isinstance(value, dict) and key in value:
            value = value[key]
        else:
            return MISSING
    return value


def is_json(text):
    try:
        json.loads(text)
        return True
    except (TypeError, ValueError):
        return False


def follows(events, pattern, ignored=()):
    """`events` without `ignored` are `pattern`, in which NAME+ stands for one or more."""
    one_letter = {}
    for name in [*events, *(p.rstrip("+") for p in pattern)]:
        one_letter.setdefault(name, chr(0xE000 + len(one_letter)))
    text = "".join(one_letter[e] for e in events if e not in ignored)
    return re.fullmatch("".join(one_letter[p.rstrip("+")] + "+" * p.endswith("+") for p in pattern), text) is not None


def in_order(text, parts):
    places = [text.find(part) for part in parts]
    return -1 not in places and places == sorted(places)


OPERATIONS = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "in": lambda a, b: a in b,
    "not_in": lambda a, b: a not in b,
    "contains": lambda a, b: b in a,
    "not_contains": lambda a, b: b not in a,
    "not_contains_any": lambda a, b: all(x not in a for x in b),
    "has": lambda a, b: b.items() <= a.items() if isinstance(b, dict) else b in a,
    "has_keys": lambda a, b: all(k in a for k in b),
    "le": lambda a, b: a <= b,
    "lt": lambda a, b: a < b,
    "ge": lambda a, b: a >= b,
    "gt": lambda a, b: a > b,
    "matches": lambda a, b: re.search(b, a) is not None,
    "not_matches": lambda a, b: re.search(b, a) is None,
    "ends_with": lambda a, b: a[-1:] == [b] if isinstance(a, list) else a.endswith(b),
    "order": in_order,
    "len_eq": lambda a, b: len(a) == b,
    "is_json": lambda a, _: is_json(a),
    "not_is_json": lambda a, _: not is_json(a),
    "json_eq": lambda a, b: (json.loads(a) if isinstance(a, str) else a) == b,
    "only_in": lambda a, b: all(x in b for x in a),
    "any_in": lambda a, b: any(x in b for x in a),
    "type": lambda a, b: type(a).__name__ == {"string": "str", "object": "dict", "array": "list"}.get(b, b),
}
WITH_REFERENCE = {
    "eq_ref": lambda a, ref, _: a == ref,
    "ne_ref": lambda a, ref, _: a != ref,
    "gt_ref": lambda a, ref, _: a > ref,
    "lt_ref": lambda a, ref, _: a < ref,
    "len_eq_ref": lambda a, ref, _: len(a) == ref,
    "ge_frac_of": lambda a, ref, v: a >= v * ref,
    "lt_frac_of_ref": lambda a, ref, v: a < v * ref,
    "le_times_ref": lambda a, ref, v: a <= v * ref,
}


def condition_holds(condition, answer):
    match = re.fullmatch(r"status\s*==\s*(\d+)", condition)
    if not match:
        raise ValueError(f"unknown condition {condition!r}")
    return answer.get("status") == int(match[1])


def short(value):
    text = "(missing)" if value is MISSING else json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) < 300 else text[:300] + "..."


def check(assertion, answers):
    """None when `assertion` holds or does not apply, else what is wrong."""
    names = list(answers) if assertion["at"] == "all" else assertion["at"].split(",")
    if assertion["at"] == "rejected":
        names = [n for n, a in answers.items() if a.get("status") in (429, 503)]
    op, path = assertion["op"], assertion["path"]
    values = [lookup(answers.get(name, {}), path) for name in names]
    place = f"{assertion['at']} {path} {op} {short(assertion.get('value', assertion.get('ref')))}"
    if op == "distinct_ge":
        count = len({json.dumps(v) for v in values if v is not MISSING})
        return None if count >= assertion["value"] else f"{place}: {count} distinct"
    if op in ("only_in", "any_in") and len(names) > 1:
        values, names = [values], names[:1]
    for name, value in zip(names, values):
        answer = answers.get(name, {})
        if "when" in assertion and not condition_holds(assertion["when"], answer):
            continue
        if value is MISSING and assertion.get("optional"):
            continue
        if op == "exists":
            ok = value is not MISSING and value is not None
        elif op == "null_or_absent":
            ok = value is MISSING or value is None
        elif op in ("in", "not_in", "ne") and value is MISSING:
            ok = OPERATIONS[op](None, assertion["value"])
        elif value is MISSING:
            ok = False
        elif op == "sequence":
            ok = follows(value, assertion["value"], assertion.get("ignore", ()))
        elif op == "sum_eq_ref":
            reference = lookup(answers, assertion["ref"])
            sums = [sum(v[f] for f in assertion["fields"]) for v in (value, reference)]
            ok = sums[0] == sums[1]
            place = f"{place}: sums {sums}"
        elif op in WITH_REFERENCE:
            reference = lookup(answers, assertion["ref"])
            ok = reference is not MISSING and WITH_REFERENCE[op](value, reference, assertion.get("value"))
            place = f"{place} (= {short(reference)})"
        else:
            try:
                ok = OPERATIONS[op](value, assertion.get("value"))
            except (TypeError, ValueError):
                ok = False
        if not ok:
            detail = "" if value is not MISSING else f"; answer {short(answer.get('text'))}"
            return f"{place}: found {short(value)}{detail}"
    return None
