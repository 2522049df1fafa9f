//! The functions of WASI preview 1 that modules can import; compilers add such imports whether a module needs them or not.
//!
//! There are no files, no arguments and no environment; standard output goes to the log; time and random numbers are those of
//! the settings.

use wasmi::{Caller, Error, Extern, ExternType, Linker, Module, Val};

use super::host::spend;
use super::plugin::Host;

const WASI: &str = "wasi_snapshot_preview1";
const OK: i32 = 0;
/// Not an open file.
const BADF: i32 = 8;
/// Too many at once.
const INVAL: i32 = 28;
/// No such function.
const NOSYS: i32 = 52;

/// How many buffers or events one call may name.
const MOST: u32 = 1024;
/// How many bytes of one line of output are logged.
const LOGGED: usize = 1000;

type Call<'a> = Caller<'a, Host>;
type Result<T, E = Error> = std::result::Result<T, E>;

/// Adds the functions that a module can import; all others of WASI return "no such function".
pub(super) fn add(linker: &mut Linker<Host>, module: &Module) -> Result<()> {
    linker.allow_shadowing(true);
    for import in module.imports().filter(|i| i.module() == WASI) {
        let ExternType::Func(shape) = import.ty() else { continue };
        linker.func_new(WASI, import.name(), shape.clone(), |_, _, results| {
            results.iter_mut().for_each(|result| *result = Val::I32(NOSYS));
            Ok(())
        })?;
    }
    arguments(linker)?;
    time_and_random_numbers(linker)?;
    files(linker)?;
    linker.func_wrap(WASI, "proc_exit", |code: i32| -> Result<()> {
        Err(Error::new(format!("it ended itself with the code {code}")))
    })?;
    linker.func_wrap(WASI, "sched_yield", || OK)?;
    linker.func_wrap(WASI, "poll_oneoff", poll)?;
    Ok(())
}

fn arguments(linker: &mut Linker<Host>) -> Result<()> {
    for name in ["args_sizes_get", "environ_sizes_get"] {
        linker.func_wrap(WASI, name, |mut c: Call<'_>, count: u32, size: u32| {
            write(&mut c, count, &[0; 4])?;
            write(&mut c, size, &[0; 4])
        })?;
    }
    for name in ["args_get", "environ_get"] {
        linker.func_wrap(WASI, name, |_: u32, _: u32| OK)?;
    }
    Ok(())
}

fn time_and_random_numbers(linker: &mut Linker<Host>) -> Result<()> {
    linker.func_wrap(WASI, "clock_time_get", |mut c: Call<'_>, _: u32, _: u64, out: u32| {
        let now = c.data().surroundings.clock.now().as_nanosecond();
        write(&mut c, out, &u64::try_from(now).unwrap_or(u64::MAX).to_le_bytes())
    })?;
    linker.func_wrap(WASI, "clock_res_get", |mut c: Call<'_>, _: u32, out: u32| {
        write(&mut c, out, &1_u64.to_le_bytes())
    })?;
    linker.func_wrap(WASI, "random_get", |mut c: Call<'_>, out: u32, len: u32| {
        spend(&mut c, u64::from(len))?;
        let random = c.data().surroundings.random.clone();
        for part in within(memory(&mut c)?, out, len)?.chunks_mut(8) {
            part.copy_from_slice(&random.u64().to_le_bytes()[..part.len()]);
        }
        Ok::<_, Error>(OK)
    })?;
    Ok(())
}

fn files(linker: &mut Linker<Host>) -> Result<()> {
    linker.func_wrap(WASI, "fd_write", print)?;
    linker.func_wrap(WASI, "fd_read", |mut c: Call<'_>, fd: u32, _: u32, _: u32, out: u32| {
        if fd == 0 { write(&mut c, out, &[0; 4]) } else { Ok(BADF) }
    })?;
    linker.func_wrap(WASI, "fd_fdstat_get", |mut c: Call<'_>, fd: u32, out: u32| {
        if fd > 2 {
            return Ok(BADF);
        }
        // A character device without flags and rights.
        let mut stat = [0; 24];
        stat[0] = 2;
        write(&mut c, out, &stat)
    })?;
    linker.func_wrap(WASI, "fd_fdstat_set_flags", |_: u32, _: u32| OK)?;
    linker.func_wrap(WASI, "fd_prestat_get", |_: u32, _: u32| BADF)?;
    linker.func_wrap(WASI, "fd_close", |_: u32| OK)?;
    Ok(())
}

/// `fd_write`: output goes to the log.
fn print(mut c: Call<'_>, fd: u32, parts: u32, count: u32, out: u32) -> Result<i32> {
    if !(1..=2).contains(&fd) {
        return Ok(BADF);
    }
    if count > MOST {
        return Ok(INVAL);
    }
    spend(&mut c, u64::from(count) * 8)?;
    let mut output = Vec::new();
    let mut written = 0_u32;
    for part in 0..count {
        let memory = memory(&mut c)?;
        let place = within(memory, parts.saturating_add(part.saturating_mul(8)), 8)?;
        let (at, len) = (half(&place[..4]), half(&place[4..]));
        let room = LOGGED.saturating_sub(output.len());
        output.extend(within(memory, at, len)?.iter().take(room));
        written = written.saturating_add(len);
    }
    let output = String::from_utf8_lossy(&output);
    tracing::debug!(output = output.trim_end(), "output of a Wasm module");
    write(&mut c, out, &written.to_le_bytes())
}

/// `poll_oneoff`: nothing sleeps, so every event has happened.
fn poll(mut c: Call<'_>, waiting: u32, happened: u32, count: u32, out: u32) -> Result<i32> {
    if count > MOST {
        return Ok(INVAL);
    }
    spend(&mut c, u64::from(count) * 48)?;
    for index in 0..count {
        let memory = memory(&mut c)?;
        let place = within(memory, waiting.saturating_add(index.saturating_mul(48)), 48)?;
        let mut event = [0; 32];
        event[..8].copy_from_slice(&place[..8]);
        event[10] = place[8];
        write(&mut c, happened.saturating_add(index.saturating_mul(32)), &event)?;
    }
    write(&mut c, out, &count.to_le_bytes())
}

fn half(bytes: &[u8]) -> u32 {
    bytes.iter().rev().fold(0, |number, byte| number << 8 | u32::from(*byte))
}

fn write(c: &mut Call<'_>, at: u32, bytes: &[u8]) -> Result<i32> {
    spend(c, bytes.len() as u64)?;
    let memory = memory(c)?;
    let len = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    within(memory, at, len)?.copy_from_slice(bytes);
    Ok(OK)
}

/// Returns the module's own memory.
fn memory<'a>(c: &'a mut Call<'_>) -> Result<&'a mut [u8]> {
    match c.get_export("memory") {
        Some(Extern::Memory(memory)) => Ok(memory.data_mut(c)),
        _ => Err(Error::new("it exports no memory")),
    }
}

fn within(memory: &mut [u8], at: u32, len: u32) -> Result<&mut [u8]> {
    let range = at as usize..(at as usize).saturating_add(len as usize);
    memory.get_mut(range).ok_or_else(|| Error::new("it points outside of its own memory"))
}
