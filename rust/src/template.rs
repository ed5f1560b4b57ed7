//! Chat templates: minijinja set up as transformers sets up Jinja2 (utils/chat_template_utils.py).

use crate::ffi::{bytes_out, guard, EbBytes, EbText};
use crate::{python, python_methods};
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Rest, ValueKind};
use minijinja::{Environment, Error, ErrorKind, Value};
use serde::Deserialize;
use serde_json::Value as Json;
use std::cell::RefCell;

thread_local! {
    /// Message of the raise_exception that stopped the rendering on this thread.
    static RAISED: RefCell<Option<String>> = const { RefCell::new(None) };
}

pub struct EbTemplate {
    environment: Environment<'static>,
}

const NAME: &str = "chat_template";

impl EbTemplate {
    fn new(source: &str) -> Result<Self, String> {
        let mut environment = Environment::new();
        let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
        environment.set_syntax(syntax.map_err(|e| e.to_string())?);
        environment.set_unknown_method_callback(python_methods::call);
        environment.set_formatter(|out, _state, value| {
            out.write_str(&python::str_of(value)).map_err(|_| Error::from(ErrorKind::WriteFailure))
        });
        environment.add_filter("tojson", python::to_json);
        environment.add_filter("string", |value: &Value| python::str_of(value));
        environment.add_filter("trim", trim);
        // In Python texts and dicts are sequences too: they have a length and items.
        environment.add_test("sequence", |value: &Value| {
            matches!(value.kind(), ValueKind::Undefined | ValueKind::Seq | ValueKind::Map | ValueKind::String)
        });
        environment.add_function("raise_exception", raise_exception);
        environment.add_function("strftime_now", strftime_now);
        environment.add_template_owned(NAME, without_generation_tags(source)).map_err(|e| describe(&e))?;
        Ok(EbTemplate { environment })
    }

    fn render(&self, variables: &str) -> Result<String, (bool, String)> {
        let own = |e: String| (false, e);
        // The caller limits the depth of what clients send; variables are a few levels deeper than that.
        let mut deserializer = serde_json::Deserializer::from_str(variables);
        deserializer.disable_recursion_limit();
        let json = Json::deserialize(&mut deserializer).map_err(|e| own(e.to_string()))?;
        RAISED.with(|raised| raised.borrow_mut().take());
        let template = self.environment.get_template(NAME).map_err(|e| own(describe(&e)))?;
        template.render(to_value(json)).map_err(|e| match RAISED.with(|raised| raised.borrow_mut().take()) {
            Some(message) => (true, message),
            None => own(describe(&e)),
        })
    }
}

fn to_value(json: Json) -> Value {
    match json {
        Json::Null => Value::from(()),
        Json::Bool(b) => Value::from(b),
        Json::Number(n) => match (n.as_i64(), n.as_u64()) {
            (Some(i), _) => Value::from(i),
            (None, Some(u)) => Value::from(u),
            _ => Value::from(n.as_f64().unwrap_or(f64::NAN)),
        },
        Json::String(s) => Value::from(s),
        Json::Array(items) => Value::from(items.into_iter().map(to_value).collect::<Vec<_>>()),
        Json::Object(map) => Value::from_pairs(map.into_iter().map(|(key, item)| (key, to_value(item)))),
    }
}

/// `{% generation %}` only marks what the assistant wrote, for training; it renders as its content.
fn without_generation_tags(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(at) = rest.find("{%") {
        let (before, tag) = rest.split_at(at);
        out.push_str(before);
        let end = tag.find("%}").map_or(tag.len(), |end| end + 2);
        let inner = tag[..end].trim_start_matches("{%").trim_end_matches("%}");
        let word = inner.trim_matches(|c: char| c.is_whitespace() || c == '-' || c == '+');
        let replacement = match word {
            "generation" => "if true",
            "endgeneration" => "endif",
            _ => "",
        };
        if replacement.is_empty() {
            out.push_str("{%");
            rest = &tag[2..];
        } else {
            out.push_str(&tag[..end].replace(word, replacement));
            rest = &tag[end..];
        }
    }
    out.push_str(rest);
    out
}

/// Jinja's trim: like str.strip, of characters given or of white space.
fn trim(value: &Value, chars: Option<Value>) -> String {
    let text = python::str_of(value);
    match chars.as_ref().and_then(Value::as_str) {
        Some(chars) => text.trim_matches(|c| chars.contains(c)).to_string(),
        None => python_methods::strip(&text).to_string(),
    }
}

fn raise_exception(message: &Value, _rest: Rest<Value>) -> Result<Value, Error> {
    let message = python::str_of(message);
    RAISED.with(|raised| *raised.borrow_mut() = Some(message.clone()));
    Err(Error::new(ErrorKind::InvalidOperation, message))
}

/// datetime.now().strftime(format), in local time.
fn strftime_now(format: &str) -> Result<String, Error> {
    let failed = || Error::new(ErrorKind::InvalidOperation, "strftime_now: the format cannot be used");
    let format = std::ffi::CString::new(format).map_err(|_| failed())?;
    let mut buffer = vec![0u8; 512];
    // SAFETY: `moment` is filled by localtime_r before use; strftime writes at most buffer.len() bytes.
    let written = unsafe {
        let now = libc::time(std::ptr::null_mut());
        let mut moment: libc::tm = std::mem::zeroed();
        if libc::localtime_r(&now, &mut moment).is_null() {
            return Err(failed());
        }
        libc::strftime(buffer.as_mut_ptr().cast(), buffer.len(), format.as_ptr(), &moment)
    };
    buffer.truncate(written);
    String::from_utf8(buffer).map_err(|_| failed())
}

/// One line: what is wrong, and where in the template.
fn describe(error: &Error) -> String {
    let what = error.detail().map_or_else(|| error.kind().to_string(), |detail| format!("{}: {detail}", error.kind()));
    match error.line() {
        Some(line) => format!("{what} (line {line})"),
        None => what,
    }
}

#[no_mangle]
pub unsafe extern "C" fn eb_template_new(source: EbText, out: *mut *mut EbTemplate, error: *mut EbBytes) -> bool {
    guard(error, || {
        *out = Box::into_raw(Box::new(EbTemplate::new(source.as_str()?)?));
        Ok(())
    })
}

#[no_mangle]
pub unsafe extern "C" fn eb_template_free(chat_template: *mut EbTemplate) {
    if !chat_template.is_null() {
        drop(Box::from_raw(chat_template));
    }
}

#[no_mangle]
pub unsafe extern "C" fn eb_template_render(
    chat_template: *const EbTemplate,
    variables: EbText,
    out: *mut EbBytes,
    raised: *mut bool,
    error: *mut EbBytes,
) -> bool {
    *raised = false;
    guard(error, || {
        let text = (*chat_template).render(variables.as_str()?).map_err(|(own, message)| {
            *raised = own;
            message
        })?;
        *out = bytes_out(text.into_bytes());
        Ok(())
    })
}
