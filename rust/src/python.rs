//! Values as Python prints them: str(), repr() and json.dumps(), which chat templates are written against.

use minijinja::value::{from_args, Kwargs, Rest, ValueKind, ValueOrKwargs};
use minijinja::{Error, ErrorKind, Value};
use std::fmt::Write;

/// repr(float): the shortest digits that round-trip, with an exponent outside of 1e-4 <= |x| < 1e16.
pub fn float_repr(x: f64) -> String {
    if x.is_nan() {
        return "nan".into();
    }
    if x.is_infinite() {
        return if x > 0.0 { "inf".into() } else { "-inf".into() };
    }
    let text = format!("{x:?}");
    match text.split_once('e') {
        Some((mantissa, exponent)) => {
            let exponent: i32 = exponent.parse().unwrap_or(0);
            format!("{mantissa}e{exponent:+03}")
        }
        None => text,
    }
}

fn as_float(value: &Value) -> Option<f64> {
    if value.kind() == ValueKind::Number && !value.is_integer() {
        f64::try_from(value.clone()).ok()
    } else {
        None
    }
}

/// str(value); undefined is empty, as Jinja prints it.
pub fn str_of(value: &Value) -> String {
    match value.kind() {
        ValueKind::Undefined => String::new(),
        ValueKind::String => value.as_str().unwrap_or_default().to_string(),
        ValueKind::Seq | ValueKind::Map | ValueKind::Number => {
            let mut out = String::new();
            write_repr(value, &mut out);
            out
        }
        _ => value.to_string(),
    }
}

fn write_repr(value: &Value, out: &mut String) {
    match value.kind() {
        ValueKind::String => write_string_repr(value.as_str().unwrap_or_default(), out),
        ValueKind::Seq => {
            let tuple = value.is_tuple();
            out.push(if tuple { '(' } else { '[' });
            let mut n = 0;
            for item in value.try_iter().into_iter().flatten() {
                out.push_str(if n > 0 { ", " } else { "" });
                write_repr(&item, out);
                n += 1;
            }
            out.push_str(if tuple && n == 1 { "," } else { "" });
            out.push(if tuple { ')' } else { ']' });
        }
        ValueKind::Map if value.as_object().is_some() => {
            out.push('{');
            for (n, key) in value.try_iter().into_iter().flatten().enumerate() {
                out.push_str(if n > 0 { ", " } else { "" });
                write_repr(&key, out);
                out.push_str(": ");
                write_repr(&value.get_item(&key).unwrap_or_default(), out);
            }
            out.push('}');
        }
        _ => match as_float(value) {
            Some(x) => out.push_str(&float_repr(x)),
            None => {
                let _ = write!(out, "{value}");
            }
        },
    }
}

/// Characters that str.isprintable() refuses: controls, separators but the space, format and private-use characters.
fn is_printable(c: char) -> bool {
    let code = c as u32;
    !(c.is_control()
        || (c.is_whitespace() && c != ' ')
        || matches!(code, 0xad | 0x600..=0x605 | 0x61c | 0x6dd | 0x70f | 0x180e | 0x200b..=0x200f
            | 0x202a..=0x202e | 0x2060..=0x206f | 0xe000..=0xf8ff | 0xfeff | 0xfff0..=0xfffb
            | 0xe0000..=0xe007f | 0xf0000..=0x10ffff)
        || code & 0xfffe == 0xfffe)
}

fn write_string_repr(text: &str, out: &mut String) {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    out.push(quote);
    for c in text.chars() {
        match c {
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\\' => out.push_str("\\\\"),
            c if c == quote => {
                out.push('\\');
                out.push(c);
            }
            c if is_printable(c) => out.push(c),
            c => {
                let code = c as u32;
                let _ = match code {
                    0..=0xff => write!(out, "\\x{code:02x}"),
                    0x100..=0xffff => write!(out, "\\u{code:04x}"),
                    _ => write!(out, "\\U{code:08x}"),
                };
            }
        }
    }
    out.push(quote);
}

/// The options of json.dumps that transformers' `tojson` takes.
struct Dumps {
    ensure_ascii: bool,
    indent: Option<String>,
    item_separator: String,
    key_separator: String,
    sort_keys: bool,
}

impl Dumps {
    fn write(&self, value: &Value, depth: usize, out: &mut String) -> Result<(), Error> {
        match value.kind() {
            ValueKind::None => out.push_str("null"),
            ValueKind::Bool => out.push_str(if value.is_true() { "true" } else { "false" }),
            ValueKind::String => self.write_string(value.as_str().unwrap_or_default(), out),
            ValueKind::Number => match as_float(value) {
                Some(x) if x.is_nan() => out.push_str("NaN"),
                Some(x) if x.is_infinite() => out.push_str(if x > 0.0 { "Infinity" } else { "-Infinity" }),
                Some(x) => out.push_str(&float_repr(x)),
                None => {
                    let _ = write!(out, "{value}");
                }
            },
            ValueKind::Seq | ValueKind::Iterable => {
                let items: Vec<Value> = value.try_iter()?.collect();
                self.write_items(items.len(), ('[', ']'), depth, out, |n, out| self.write(&items[n], depth + 1, out))?;
            }
            ValueKind::Map => {
                let mut keys: Vec<Value> = value.try_iter()?.collect();
                if self.sort_keys {
                    keys.sort_by(|a, b| key_text(a).cmp(&key_text(b)));
                }
                self.write_items(keys.len(), ('{', '}'), depth, out, |n, out| {
                    self.write_string(&key_text(&keys[n]), out);
                    out.push_str(&self.key_separator);
                    self.write(&value.get_item(&keys[n])?, depth + 1, out)
                })?;
            }
            kind => {
                return Err(Error::new(
                    ErrorKind::InvalidOperation,
                    format!("Object of type {kind} is not JSON serializable"),
                ))
            }
        }
        Ok(())
    }

    fn write_items(
        &self,
        count: usize,
        brackets: (char, char),
        depth: usize,
        out: &mut String,
        mut write_item: impl FnMut(usize, &mut String) -> Result<(), Error>,
    ) -> Result<(), Error> {
        out.push(brackets.0);
        for n in 0..count {
            out.push_str(if n > 0 { &self.item_separator } else { "" });
            self.new_line(depth + 1, out);
            write_item(n, out)?;
        }
        if count > 0 {
            self.new_line(depth, out);
        }
        out.push(brackets.1);
        Ok(())
    }

    fn new_line(&self, depth: usize, out: &mut String) {
        if let Some(indent) = &self.indent {
            out.push('\n');
            out.push_str(&indent.repeat(depth));
        }
    }

    fn write_string(&self, text: &str, out: &mut String) {
        out.push('"');
        for c in text.chars() {
            match c {
                '"' => out.push_str("\\\""),
                '\\' => out.push_str("\\\\"),
                '\n' => out.push_str("\\n"),
                '\r' => out.push_str("\\r"),
                '\t' => out.push_str("\\t"),
                '\u{8}' => out.push_str("\\b"),
                '\u{c}' => out.push_str("\\f"),
                c if (c as u32) < 0x20 || (self.ensure_ascii && !(' '..='~').contains(&c)) => {
                    for unit in c.encode_utf16(&mut [0; 2]) {
                        let _ = write!(out, "\\u{unit:04x}");
                    }
                }
                c => out.push(c),
            }
        }
        out.push('"');
    }
}

fn key_text(key: &Value) -> String {
    match key.kind() {
        ValueKind::None => "null".into(),
        ValueKind::Bool => (if key.is_true() { "true" } else { "false" }).into(),
        _ => str_of(key),
    }
}

/// transformers' `tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False)`.
pub fn to_json(value: &Value, args: Rest<ValueOrKwargs>) -> Result<String, Error> {
    let args = args.into_values();
    let (args, kwargs) = from_args::<(&[Value], Kwargs)>(&args)?;
    let pick = |position: usize, name: &str| -> Result<Option<Value>, Error> {
        let given = match args.get(position) {
            Some(value) => Some(value.clone()),
            None => kwargs.get::<Option<Value>>(name)?,
        };
        Ok(given.filter(|value| !value.is_none() && !value.is_undefined()))
    };
    let indent = pick(1, "indent")?.map(|value| match value.as_str() {
        Some(text) => text.to_string(),
        None => " ".repeat(value.as_i64().unwrap_or(0).clamp(0, 64) as usize),
    });
    let separators = pick(2, "separators")?;
    let ensure_ascii = pick(0, "ensure_ascii")?;
    let sort_keys = pick(3, "sort_keys")?;
    kwargs.assert_all_used()?;
    let separator = |index: usize, default: &str| match &separators {
        Some(pair) => pair.get_item(&Value::from(index)).map(|item| str_of(&item)),
        None => Ok(default.to_string()),
    };
    let dumps = Dumps {
        ensure_ascii: ensure_ascii.is_some_and(|value| value.is_true()),
        item_separator: separator(0, if indent.is_some() { "," } else { ", " })?,
        key_separator: separator(1, ": ")?,
        sort_keys: sort_keys.is_some_and(|value| value.is_true()),
        indent,
    };
    let mut out = String::new();
    dumps.write(value, 0, &mut out)?;
    Ok(out)
}
