//! The functions that Extism modules import from their host.
//!
//! Texts are passed in blocks of shared memory, by their address. Address 0 stands for none.

use wasmi::{Caller, Error, Linker};

use super::memory::OVERHEAD;
use super::plugin::Host;

const ENV: &str = "extism:host/env";
/// The total size of a module's variables.
const VARS: usize = 1 << 20;
/// The log level: information.
const INFO: i32 = 2;

/// The largest answer.
const OUTPUT: u64 = 1 << 20;
/// How many bytes of a text are logged or reported.
const EXCERPT: usize = 1000;

type Call<'a> = Caller<'a, Host>;
type Result<T, E = Error> = std::result::Result<T, E>;

/// Adds all functions to the linker.
pub(super) fn add(linker: &mut Linker<Host>) -> Result<()> {
    blocks(linker)?;
    input(linker)?;
    linker.func_wrap(ENV, "output_set", |mut c: Call<'_>, at: u64, len: u64| {
        spend(&mut c, len)?;
        if len > OUTPUT {
            return Err(Error::new(format!("its result is larger than {OUTPUT} bytes")));
        }
        let output = c.data().memory.slice(at, len).map(<[u8]>::to_vec);
        c.data_mut().output = output.ok_or_else(|| outside(at))?;
        Ok(())
    })?;
    linker.func_wrap(ENV, "error_set", |mut c: Call<'_>, at: u64| {
        spend(&mut c, 0)?;
        c.data_mut().error = excerpt(&c, at);
        Ok::<_, Error>(())
    })?;
    settings(linker)?;
    logging(linker)?;
    web(linker)
}

fn blocks(linker: &mut Linker<Host>) -> Result<()> {
    linker.func_wrap(ENV, "alloc", |mut c: Call<'_>, len: u64| {
        spend(&mut c, len)?;
        c.data_mut().memory.make(len).ok_or_else(|| Error::new("it uses too much memory"))
    })?;
    linker.func_wrap(ENV, "free", |mut c: Call<'_>, at: u64| {
        spend(&mut c, 0)?;
        c.data_mut().memory.free(at);
        Ok::<_, Error>(())
    })?;
    for name in ["length", "length_unsafe"] {
        linker.func_wrap(ENV, name, |mut c: Call<'_>, at: u64| {
            spend(&mut c, 0)?;
            Ok::<_, Error>(c.data().memory.block(at).map_or(0, |block| block.len() as u64))
        })?;
    }
    linker.func_wrap(ENV, "load_u8", |mut c: Call<'_>, at: u64| {
        spend(&mut c, 0)?;
        c.data().memory.slice(at, 1).map(|b| u32::from(b[0])).ok_or_else(|| outside(at))
    })?;
    linker.func_wrap(ENV, "load_u64", |mut c: Call<'_>, at: u64| {
        spend(&mut c, 0)?;
        c.data().memory.slice(at, 8).map(number).ok_or_else(|| outside(at))
    })?;
    linker.func_wrap(ENV, "store_u8", |mut c: Call<'_>, at: u64, byte: u32| {
        spend(&mut c, 0)?;
        let place = c.data_mut().memory.slice_mut(at, 1).ok_or_else(|| outside(at))?;
        place[0] = byte.to_le_bytes()[0];
        Ok::<_, Error>(())
    })?;
    linker.func_wrap(ENV, "store_u64", |mut c: Call<'_>, at: u64, value: u64| {
        spend(&mut c, 0)?;
        let place = c.data_mut().memory.slice_mut(at, 8).ok_or_else(|| outside(at))?;
        place.copy_from_slice(&value.to_le_bytes());
        Ok::<_, Error>(())
    })?;
    Ok(())
}

fn input(linker: &mut Linker<Host>) -> Result<()> {
    linker.func_wrap(ENV, "input_length", |c: Call<'_>| c.data().input.len() as u64)?;
    linker.func_wrap(ENV, "input_offset", |mut c: Call<'_>| {
        let input = c.data().input.clone();
        hand_over(&mut c, input)
    })?;
    linker.func_wrap(ENV, "input_load_u8", |mut c: Call<'_>, at: u64| {
        spend(&mut c, 0)?;
        of_input(&c, at, 1).map(|b| u32::from(b[0])).ok_or_else(|| outside(at))
    })?;
    linker.func_wrap(ENV, "input_load_u64", |mut c: Call<'_>, at: u64| {
        spend(&mut c, 0)?;
        of_input(&c, at, 8).map(number).ok_or_else(|| outside(at))
    })?;
    Ok(())
}

fn settings(linker: &mut Linker<Host>) -> Result<()> {
    linker.func_wrap(ENV, "config_get", |mut c: Call<'_>, key: u64| {
        let key = text(&mut c, key)?;
        let value = key.and_then(|key| c.data().config.get(&key).cloned());
        value.map_or(Ok(0), |value| hand_over(&mut c, value.into_bytes()))
    })?;
    linker.func_wrap(ENV, "var_get", |mut c: Call<'_>, key: u64| {
        let key = text(&mut c, key)?;
        let value = key.and_then(|key| c.data().vars.get(&key).cloned());
        value.map_or(Ok(0), |value| hand_over(&mut c, value))
    })?;
    linker.func_wrap(ENV, "var_set", |mut c: Call<'_>, key: u64, value: u64| {
        let Some(key) = text(&mut c, key)? else { return Err(outside(key)) };
        let value = c.data().memory.block(value).map(<[u8]>::to_vec);
        spend(&mut c, value.as_ref().map_or(0, |value| value.len() as u64))?;
        set_variable(c.data_mut(), key, value)
    })?;
    Ok(())
}

/// Sets a variable or removes it.
fn set_variable(host: &mut Host, key: String, value: Option<Vec<u8>>) -> Result<()> {
    let size = |key: &str, value: &[u8]| key.len() + value.len() + OVERHEAD;
    if let Some(old) = host.vars.remove(&key) {
        host.vars_size -= size(&key, &old);
    }
    let Some(value) = value else { return Ok(()) };
    host.vars_size += size(&key, &value);
    if host.vars_size > VARS {
        return Err(Error::new(format!("its variables take more than {VARS} bytes")));
    }
    host.vars.insert(key, value);
    Ok(())
}

fn logging(linker: &mut Linker<Host>) -> Result<()> {
    for name in ["log_trace", "log_debug", "log_info", "log_warn", "log_error"] {
        linker.func_wrap(ENV, name, move |mut c: Call<'_>, at: u64| {
            spend(&mut c, EXCERPT as u64)?;
            let message = excerpt(&c, at).unwrap_or_default();
            tracing::debug!(level = &name[4..], message, "log message of a Wasm module");
            Ok::<_, Error>(())
        })?;
    }
    linker.func_wrap(ENV, "get_log_level", || INFO)?;
    Ok(())
}

/// HTTP requests fail: a module decides on its input alone.
fn web(linker: &mut Linker<Host>) -> Result<()> {
    linker.func_wrap(ENV, "http_request", |_: u64, _: u64| -> Result<u64> {
        Err(Error::new("modules of autoscalers cannot make HTTP requests"))
    })?;
    linker.func_wrap(ENV, "http_status_code", || 0)?;
    linker.func_wrap(ENV, "http_headers", || 0_u64)?;
    Ok(())
}

/// Charges the budget for a call that handles this many bytes.
pub(super) fn spend(c: &mut Call<'_>, bytes: u64) -> Result<()> {
    c.data_mut().budget.spend_on_host(bytes).map_err(Error::host)
}

fn hand_over(c: &mut Call<'_>, bytes: Vec<u8>) -> Result<u64> {
    spend(c, bytes.len() as u64)?;
    c.data_mut().memory.put(bytes).ok_or_else(|| Error::new("it uses too much memory"))
}

/// Reads the text of a block.
fn text(c: &mut Call<'_>, at: u64) -> Result<Option<String>> {
    let block = c.data().memory.block(at);
    spend(c, block.map_or(0, |block| block.len() as u64))?;
    let block = c.data().memory.block(at);
    Ok(block.map(|block| String::from_utf8_lossy(block).into_owned()))
}

/// Reads the beginning of the text of a block, for logs and messages.
fn excerpt(c: &Call<'_>, at: u64) -> Option<String> {
    let block = c.data().memory.block(at)?;
    Some(String::from_utf8_lossy(&block[..block.len().min(EXCERPT)]).into_owned())
}

fn of_input<'a>(c: &'a Call<'_>, at: u64, len: usize) -> Option<&'a [u8]> {
    let at = usize::try_from(at).ok()?;
    c.data().input.get(at..at.checked_add(len)?)
}

fn number(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

fn outside(at: u64) -> Error {
    Error::new(format!("address {at} is outside its blocks of memory"))
}
