//! What a module of Extism's kind imports from its host.
//!
//! Texts go through blocks of shared memory: whoever hands one over names where it begins. 0 stands for none.

use wasmtime::{Caller, Linker, Result, bail, format_err};

use super::plugin::Host;

const ENV: &str = "extism:host/env";
/// The most that a module may remember.
const VARS: usize = 1 << 20;
/// The level of what is worth logging: information.
const INFO: i32 = 2;

type Call<'a> = Caller<'a, Host>;

/// Adds everything to what a module can import.
pub(super) fn add(linker: &mut Linker<Host>) -> Result<()> {
    blocks(linker)?;
    input(linker)?;
    linker.func_wrap(ENV, "output_set", |mut c: Call<'_>, at: u64, len: u64| {
        let output = c.data().memory.slice(at, len).map(<[u8]>::to_vec);
        c.data_mut().output = output.ok_or_else(|| outside(at))?;
        Ok(())
    })?;
    linker.func_wrap(ENV, "error_set", |mut c: Call<'_>, at: u64| {
        c.data_mut().error = text(&c, at);
    })?;
    settings(linker)?;
    logging(linker)?;
    web(linker)
}

fn blocks(linker: &mut Linker<Host>) -> Result<()> {
    linker.func_wrap(ENV, "alloc", |mut c: Call<'_>, len: u64| {
        c.data_mut().memory.make(len).ok_or_else(|| format_err!("it wants too much memory"))
    })?;
    linker.func_wrap(ENV, "free", |mut c: Call<'_>, at: u64| c.data_mut().memory.free(at))?;
    for name in ["length", "length_unsafe"] {
        linker.func_wrap(ENV, name, |c: Call<'_>, at: u64| {
            c.data().memory.block(at).map_or(0, |block| block.len() as u64)
        })?;
    }
    linker.func_wrap(ENV, "load_u8", |c: Call<'_>, at: u64| {
        c.data().memory.slice(at, 1).map(|b| u32::from(b[0])).ok_or_else(|| outside(at))
    })?;
    linker.func_wrap(ENV, "load_u64", |c: Call<'_>, at: u64| {
        c.data().memory.slice(at, 8).map(number).ok_or_else(|| outside(at))
    })?;
    linker.func_wrap(ENV, "store_u8", |mut c: Call<'_>, at: u64, byte: u32| {
        let place = c.data_mut().memory.slice_mut(at, 1).ok_or_else(|| outside(at))?;
        place[0] = byte.to_le_bytes()[0];
        Ok(())
    })?;
    linker.func_wrap(ENV, "store_u64", |mut c: Call<'_>, at: u64, value: u64| {
        let place = c.data_mut().memory.slice_mut(at, 8).ok_or_else(|| outside(at))?;
        place.copy_from_slice(&value.to_le_bytes());
        Ok(())
    })?;
    Ok(())
}

fn input(linker: &mut Linker<Host>) -> Result<()> {
    linker.func_wrap(ENV, "input_length", |c: Call<'_>| c.data().input.len() as u64)?;
    linker.func_wrap(ENV, "input_offset", |mut c: Call<'_>| {
        let input = c.data().input.clone();
        give(&mut c, input)
    })?;
    linker.func_wrap(ENV, "input_load_u8", |c: Call<'_>, at: u64| {
        of_input(&c, at, 1).map(|b| u32::from(b[0])).ok_or_else(|| outside(at))
    })?;
    linker.func_wrap(ENV, "input_load_u64", |c: Call<'_>, at: u64| {
        of_input(&c, at, 8).map(number).ok_or_else(|| outside(at))
    })?;
    Ok(())
}

fn settings(linker: &mut Linker<Host>) -> Result<()> {
    linker.func_wrap(ENV, "config_get", |mut c: Call<'_>, key: u64| {
        let value = text(&c, key).and_then(|key| c.data().config.get(&key).cloned());
        value.map_or(Ok(0), |value| give(&mut c, value.into_bytes()))
    })?;
    linker.func_wrap(ENV, "var_get", |mut c: Call<'_>, key: u64| {
        let value = text(&c, key).and_then(|key| c.data().vars.get(&key).cloned());
        value.map_or(Ok(0), |value| give(&mut c, value))
    })?;
    linker.func_wrap(ENV, "var_set", |mut c: Call<'_>, key: u64, value: u64| {
        let Some(key) = text(&c, key) else { return Err(outside(key)) };
        let value = c.data().memory.block(value).map(<[u8]>::to_vec);
        let vars = &mut c.data_mut().vars;
        match value {
            Some(value) => vars.insert(key, value),
            None => vars.remove(&key),
        };
        if vars.iter().map(|(key, value)| key.len() + value.len()).sum::<usize>() > VARS {
            bail!("it wants to remember more than {VARS} bytes");
        }
        Ok(())
    })?;
    Ok(())
}

fn logging(linker: &mut Linker<Host>) -> Result<()> {
    for name in ["log_trace", "log_debug", "log_info", "log_warn", "log_error"] {
        linker.func_wrap(ENV, name, move |c: Call<'_>, at: u64| {
            let said: String = text(&c, at).unwrap_or_default().chars().take(1000).collect();
            tracing::debug!(level = &name[4..], said, "a module says");
        })?;
    }
    linker.func_wrap(ENV, "get_log_level", || INFO)?;
    Ok(())
}

/// A module may think, but not call others: what it decides on is what it is given.
fn web(linker: &mut Linker<Host>) -> Result<()> {
    linker.func_wrap(ENV, "http_request", |_: u64, _: u64| -> Result<u64> {
        bail!("it wants to make an HTTP request, which modules of autoscalers may not")
    })?;
    linker.func_wrap(ENV, "http_status_code", || 0)?;
    linker.func_wrap(ENV, "http_headers", || 0_u64)?;
    Ok(())
}

fn give(c: &mut Call<'_>, bytes: Vec<u8>) -> Result<u64> {
    c.data_mut().memory.put(bytes).ok_or_else(|| format_err!("it holds too much memory"))
}

fn text(c: &Call<'_>, at: u64) -> Option<String> {
    c.data().memory.block(at).map(|block| String::from_utf8_lossy(block).into_owned())
}

fn of_input<'a>(c: &'a Call<'_>, at: u64, len: usize) -> Option<&'a [u8]> {
    let at = usize::try_from(at).ok()?;
    c.data().input.get(at..at.checked_add(len)?)
}

fn number(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

fn outside(at: u64) -> wasmtime::Error {
    format_err!("it reached for {at}, which is outside of what it was given")
}
