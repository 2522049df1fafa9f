//! One running module: how it is started, called and limited.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use wasmi::{
    CompilationMode, Config, Engine, Func, Instance, Linker, Module, ResumableCall, Store,
    StoreLimits, StoreLimitsBuilder, TrapCode, Val, ValType,
};

use super::budget::{Budget, Exhausted, SLICE};
use super::{Surroundings, WasmError, host, memory::Memory, wasi};

/// The limit of a module's own memory.
pub(super) const MEMORY: usize = 128 << 20;

/// The limit of a module's call depth.
const DEPTH: usize = 10_000;

/// The steps that the start function of a module may take; it cannot be stopped in between.
const START: u64 = 20 * SLICE;

static ENGINE: LazyLock<Engine> = LazyLock::new(|| {
    let mut config = Config::default();
    config.consume_fuel(true).set_max_recursion_depth(DEPTH);
    // Functions are translated at their first call, at the expense of its budget: a large module costs little before.
    config.compilation_mode(CompilationMode::LazyTranslation);
    Engine::new(&config)
});

/// A compiled module.
pub(super) struct Code {
    /// Its SHA-256.
    pub(super) hash: String,
    module: Module,
    linker: Linker<Host>,
}

/// The state of the host that a module can reach.
pub(super) struct Host {
    pub(super) memory: Memory,
    pub(super) input: Vec<u8>,
    pub(super) output: Vec<u8>,
    pub(super) error: Option<String>,
    pub(super) config: BTreeMap<String, String>,
    pub(super) vars: BTreeMap<String, Vec<u8>>,
    /// The size of all variables.
    pub(super) vars_size: usize,
    pub(super) surroundings: Surroundings,
    pub(super) budget: Budget,
    limits: StoreLimits,
}

/// A running module.
pub(super) struct Plugin {
    code: Arc<Code>,
    store: Store<Host>,
    instance: Instance,
}

impl Code {
    /// Compiles a module and links its imports.
    pub(super) fn compile(hash: String, bytes: &[u8]) -> Result<Self, String> {
        let unusable = |err: wasmi::Error| err.to_string();
        let module = Module::new(&ENGINE, bytes).map_err(unusable)?;
        let mut linker = Linker::new(&ENGINE);
        host::add(&mut linker).map_err(unusable)?;
        wasi::add(&mut linker, &module).map_err(unusable)?;
        Ok(Self { hash, module, linker })
    }
}

impl Plugin {
    pub(super) fn start(
        code: Arc<Code>,
        config: BTreeMap<String, String>,
        surroundings: Surroundings,
        budget: Budget,
    ) -> Result<Self, WasmError> {
        let limits = StoreLimitsBuilder::new()
            .memory_size(MEMORY)
            .table_elements(1 << 20)
            .instances(1)
            .memories(1)
            .trap_on_grow_failure(true)
            .build();
        let host = Host {
            memory: Memory::default(),
            input: Vec::new(),
            output: Vec::new(),
            error: None,
            config,
            vars: BTreeMap::new(),
            vars_size: 0,
            surroundings,
            budget,
            limits,
        };
        let mut store = Store::new(&ENGINE, host);
        store.limiter(|host| &mut host.limits);
        let unusable = |err: wasmi::Error| WasmError::Unusable(explain(&err));
        refuel(&mut store, START).map_err(unusable)?;
        let instance =
            code.linker.instantiate_and_start(&mut store, &code.module).map_err(unusable)?;
        let mut plugin = Self { code, store, instance };
        // Modules built as libraries are initialised here.
        if let Some(prepare) = instance.get_func(&plugin.store, "_initialize") {
            plugin.run(prepare, &mut []).map_err(unusable)?;
        }
        Ok(plugin)
    }

    /// Reports whether it runs this code with this configuration.
    pub(super) fn is(&self, code: &Code, config: &BTreeMap<String, String>) -> bool {
        self.code.hash == code.hash && self.store.data().config == *config
    }

    /// Returns the memory that it keeps between two calls.
    pub(super) fn size(&self) -> usize {
        let memory = self.instance.get_memory(&self.store, "memory");
        let own = memory.map_or(0, |memory| memory.data_size(&self.store));
        own.saturating_add(self.store.data().vars_size)
    }

    /// Calls a function with an input and returns its output. A plugin that failed must not be called again.
    pub(super) fn call(
        &mut self,
        name: &str,
        input: Vec<u8>,
        budget: Budget,
    ) -> Result<Vec<u8>, WasmError> {
        let failed = |why: String| WasmError::Failed { function: name.to_owned(), why };
        let Some(function) = self.instance.get_func(&self.store, name) else {
            return Err(WasmError::Unusable(format!("it has no function `{name}`")));
        };
        let shape = function.ty(&self.store);
        let returns_code = match shape.results() {
            [] => false,
            [ValType::I32] => true,
            _ => return Err(WasmError::Unusable(format!("`{name}` does not return an i32"))),
        };
        if !shape.params().is_empty() {
            return Err(WasmError::Unusable(format!("`{name}` takes parameters")));
        }
        let host = self.store.data_mut();
        (host.input, host.output, host.error, host.budget) = (input, Vec::new(), None, budget);
        let mut results = [Val::I32(0)];
        let results = if returns_code { results.as_mut_slice() } else { &mut [] };
        let called = self.run(function, results);
        let code = results.first().and_then(Val::i32).unwrap_or(0);
        let host = self.store.data_mut();
        // Input and blocks are not used after the call.
        (host.memory, host.input) = (Memory::default(), Vec::new());
        match (called, host.error.take()) {
            (Ok(()), None) if code == 0 => Ok(std::mem::take(&mut host.output)),
            (_, Some(message)) => Err(failed(message)),
            (Err(err), None) => Err(failed(explain(&err))),
            (Ok(()), None) => Err(failed(format!("it returned {code}"))),
        }
    }

    /// Runs a function slice by slice until it ends or its budget does.
    fn run(&mut self, function: Func, results: &mut [Val]) -> Result<(), wasmi::Error> {
        refuel(&mut self.store, SLICE)?;
        let mut call = function.call_resumable(&mut self.store, &[], results)?;
        loop {
            match call {
                ResumableCall::Finished => return Ok(()),
                ResumableCall::HostTrap(trap) => return Err(trap.into_host_error()),
                ResumableCall::OutOfFuel(paused) => {
                    refuel(&mut self.store, paused.required_fuel().max(SLICE))?;
                    call = paused.resume(&mut self.store, results)?;
                }
            }
        }
    }
}

/// Takes steps out of the budget for the instructions that run next.
fn refuel(store: &mut Store<Host>, steps: u64) -> Result<(), wasmi::Error> {
    store.data_mut().budget.spend(steps).map_err(wasmi::Error::host)?;
    store.set_fuel(steps)
}

/// Describes why a module was stopped.
fn explain(err: &wasmi::Error) -> String {
    match err.as_trap_code() {
        Some(TrapCode::OutOfFuel) => Exhausted::Work(START).to_string(),
        Some(TrapCode::GrowthOperationLimited) => "it uses more memory than allowed".to_owned(),
        _ => err.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::budget::Limits;
    use super::*;

    const FOREVER: Duration = Duration::from_secs(3600);

    /// Runs a module whose imports and body are given, and returns how that failed.
    fn fails(text: &str, limits: Limits) -> String {
        let bytes = wat::parse_str(format!("(module {text})")).unwrap();
        let code = Arc::new(Code::compile("hash".to_owned(), &bytes).unwrap());
        let budget = Budget::new(limits, Arc::default());
        let called = Plugin::start(code, BTreeMap::new(), Surroundings::default(), budget.clone())
            .and_then(|mut plugin| plugin.call("scale", Vec::new(), budget));
        called.expect_err("it fails").to_string()
    }

    #[test]
    fn a_module_without_end_is_stopped_by_work_and_by_time() {
        let endless = r#"(func (export "scale") (loop $on (br $on)))"#;
        let failed = fails(endless, Limits { work: 40 * SLICE, time: FOREVER });
        assert!(failed.contains("within 40000000 steps"), "{failed}");
        let limits = Limits { work: u64::MAX, time: Duration::from_millis(1) };
        let failed = fails(endless, limits);
        assert!(failed.contains("within 0.001 s"), "{failed}");
    }

    #[test]
    fn calls_of_the_host_cost_work_too() {
        let limits = Limits { work: 40 * SLICE, time: FOREVER };
        // Some thousand instructions, and half a gigabyte of random numbers.
        let random = r#"
            (import "wasi_snapshot_preview1" "random_get" (func $random (param i32 i32) (result i32)))
            (memory (export "memory") 16)
            (func (export "scale") (local $i i32)
                (loop $on
                    (drop (call $random (i32.const 0) (i32.const 1048576)))
                    (local.set $i (i32.add (local.get $i) (i32.const 1)))
                    (br_if $on (i32.lt_u (local.get $i) (i32.const 500)))))"#;
        let failed = fails(random, limits);
        assert!(failed.contains("within 40000000 steps"), "{failed}");
    }

    #[test]
    fn a_start_function_without_end_is_stopped() {
        let endless = r#"(func $go (loop $on (br $on))) (start $go) (func (export "scale"))"#;
        let failed = fails(endless, Limits { work: 100 * SLICE, time: FOREVER });
        assert!(failed.contains("it did not finish"), "{failed}");
    }

    #[test]
    fn the_memory_of_the_host_for_a_module_is_bounded() {
        let limits = Limits { work: 1000 * SLICE, time: FOREVER };
        let blocks = r#"
            (import "extism:host/env" "alloc" (func $alloc (param i64) (result i64)))
            (func (export "scale") (loop $on (drop (call $alloc (i64.const 0))) (br $on)))"#;
        let failed = fails(blocks, limits);
        assert!(failed.contains("too much memory"), "{failed}");
        // As many variables of one byte as it likes, each with a name of its own.
        let variables = r#"
            (import "extism:host/env" "alloc" (func $alloc (param i64) (result i64)))
            (import "extism:host/env" "free" (func $free (param i64)))
            (import "extism:host/env" "store_u64" (func $store (param i64 i64)))
            (import "extism:host/env" "var_set" (func $remember (param i64 i64)))
            (func (export "scale") (local $i i64) (local $key i64)
                (loop $on
                    (local.set $key (call $alloc (i64.const 8)))
                    (call $store (local.get $key) (local.get $i))
                    (call $remember (local.get $key) (local.get $key))
                    (call $free (local.get $key))
                    (local.set $i (i64.add (local.get $i) (i64.const 1)))
                    (br $on)))"#;
        let failed = fails(variables, limits);
        assert!(failed.contains("its variables take more than"), "{failed}");
    }
}
