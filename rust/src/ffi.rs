//! What every C entry needs: views of the caller's memory, buffers handed out, errors and panics as text.

use std::panic::{catch_unwind, AssertUnwindSafe};

#[repr(C)]
pub struct EbBytes {
    data: *mut u8,
    size: usize,
}

#[repr(C)]
pub struct EbIds {
    data: *mut u32,
    size: usize,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct EbText {
    data: *const u8,
    size: usize,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct EbSpan {
    pub begin: usize,
    pub end: usize,
}

impl EbText {
    pub fn from_bytes(bytes: &[u8]) -> Self {
        EbText { data: bytes.as_ptr(), size: bytes.len() }
    }

    /// # Safety
    /// The caller's pointer and size describe readable memory.
    pub unsafe fn as_bytes<'a>(self) -> &'a [u8] {
        slice(self.data, self.size)
    }

    /// # Safety
    /// The caller's pointer and size describe readable memory.
    pub unsafe fn as_str<'a>(self) -> Result<&'a str, String> {
        std::str::from_utf8(slice(self.data, self.size)).map_err(|e| format!("the text is not valid UTF-8: {e}"))
    }
}

/// # Safety
/// `data` points to `size` readable items, or `size` is 0.
pub unsafe fn slice<'a, T>(data: *const T, size: usize) -> &'a [T] {
    if size == 0 {
        &[]
    } else {
        std::slice::from_raw_parts(data, size)
    }
}

pub fn bytes_out(bytes: Vec<u8>) -> EbBytes {
    let boxed = bytes.into_boxed_slice();
    let size = boxed.len();
    EbBytes { data: Box::into_raw(boxed) as *mut u8, size }
}

pub fn ids_out(ids: &[u32]) -> EbIds {
    let boxed: Box<[u32]> = ids.into();
    let size = boxed.len();
    EbIds { data: Box::into_raw(boxed) as *mut u32, size }
}

#[no_mangle]
pub unsafe extern "C" fn eb_bytes_free(bytes: EbBytes) {
    if !bytes.data.is_null() {
        drop(Box::from_raw(std::ptr::slice_from_raw_parts_mut(bytes.data, bytes.size)));
    }
}

#[no_mangle]
pub unsafe extern "C" fn eb_ids_free(ids: EbIds) {
    if !ids.data.is_null() {
        drop(Box::from_raw(std::ptr::slice_from_raw_parts_mut(ids.data, ids.size)));
    }
}

/// Runs `body`; its error, or its panic, goes to `error` as text.
///
/// # Safety
/// `error` is writable.
pub unsafe fn guard(error: *mut EbBytes, body: impl FnOnce() -> Result<(), String>) -> bool {
    let message = match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => return true,
        Ok(Err(message)) => message,
        Err(panic) => panic_message(panic.as_ref()),
    };
    *error = bytes_out(message.into_bytes());
    false
}

fn panic_message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic
        .downcast_ref::<&str>()
        .map(|s| s.to_string())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_default();
    format!("internal failure: {text}")
}
