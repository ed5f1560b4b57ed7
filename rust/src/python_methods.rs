//! Methods of Python's str, list and dict that chat templates call and minijinja-contrib lacks or has otherwise.

use minijinja::value::{from_args, Tuple, ValueKind};
use minijinja::{Error, ErrorKind, State, Value};

/// str.isspace(): Unicode's White_Space and the four separators of ASCII.
pub fn is_space(c: char) -> bool {
    c.is_whitespace() || ('\x1c'..='\x1f').contains(&c)
}

pub fn strip(text: &str) -> &str {
    text.trim_matches(is_space)
}

pub fn call(state: &mut State, value: &Value, method: &str, args: &[Value]) -> Result<Value, Error> {
    let own = match value.kind() {
        ValueKind::String => string_method(value.as_str().unwrap_or_default(), method, args)?,
        ValueKind::Seq if method == "index" => Some(index_of(value, args)?),
        ValueKind::Seq | ValueKind::Map if method == "copy" => Some(value.clone()),
        _ => None,
    };
    match own {
        Some(result) => Ok(result),
        None => minijinja_contrib::pycompat::unknown_method_callback(state, value, method, args),
    }
}

fn string_method(text: &str, method: &str, args: &[Value]) -> Result<Option<Value>, Error> {
    Ok(Some(match (method, args.len()) {
        ("strip", 0) => Value::from(strip(text)),
        ("lstrip", 0) => Value::from(text.trim_start_matches(is_space)),
        ("rstrip", 0) => Value::from(text.trim_end_matches(is_space)),
        ("removeprefix", _) => {
            let (prefix,): (&str,) = from_args(args)?;
            Value::from(text.strip_prefix(prefix).unwrap_or(text))
        }
        ("removesuffix", _) => {
            let (suffix,): (&str,) = from_args(args)?;
            Value::from(text.strip_suffix(suffix).unwrap_or(text))
        }
        ("partition", _) => {
            let (mark,): (&str,) = from_args(args)?;
            match text.split_once(mark) {
                Some((left, right)) => tuple([left, mark, right]),
                None => tuple([text, "", ""]),
            }
        }
        ("rpartition", _) => {
            let (mark,): (&str,) = from_args(args)?;
            match text.rsplit_once(mark) {
                Some((left, right)) => tuple([left, mark, right]),
                None => tuple(["", "", text]),
            }
        }
        ("rsplit", _) => {
            let (mark, limit): (&str, Option<i64>) = from_args(args)?;
            let limit = limit.filter(|n| *n >= 0).map_or(usize::MAX, |n| n as usize + 1);
            let mut parts: Vec<Value> = text.rsplitn(limit, mark).map(Value::from).collect();
            parts.reverse();
            Value::from(parts)
        }
        ("index", _) => {
            let (mark,): (&str,) = from_args(args)?;
            let at = text.find(mark).ok_or_else(|| not_found("substring"))?;
            Value::from(text[..at].chars().count())
        }
        _ => return Ok(None),
    }))
}

fn tuple(parts: [&str; 3]) -> Value {
    Value::from(Tuple::new(parts.into_iter().map(Value::from).collect()))
}

fn index_of(list: &Value, args: &[Value]) -> Result<Value, Error> {
    let (wanted,): (&Value,) = from_args(args)?;
    let at = list.try_iter()?.position(|item| item == *wanted);
    at.map(Value::from).ok_or_else(|| not_found("value"))
}

fn not_found(what: &str) -> Error {
    Error::new(ErrorKind::InvalidOperation, format!("{what} not found"))
}
