//! One running module: how it is started, called and held in.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use wasmtime::{
    Config, Engine, Instance, Linker, Module, Store, StoreLimits, StoreLimitsBuilder, Val, ValType,
};

use super::{WasmError, host, memory::Memory, wasi};

/// What one call may cost: about as many instructions, which is around a second.
const FUEL: u64 = 1_000_000_000;
/// How large a module's own memory may become.
const MEMORY: usize = 128 << 20;

static ENGINE: LazyLock<Engine> = LazyLock::new(|| {
    let mut config = Config::new();
    config.consume_fuel(true);
    Engine::new(&config).expect("metering is available wherever code is compiled")
});

/// A compiled module.
pub(super) struct Code {
    /// Its SHA-256.
    pub(super) hash: String,
    module: Module,
    linker: Linker<Host>,
}

/// What a module can reach of us.
pub(super) struct Host {
    pub(super) memory: Memory,
    pub(super) input: Vec<u8>,
    pub(super) output: Vec<u8>,
    pub(super) error: Option<String>,
    pub(super) config: BTreeMap<String, String>,
    pub(super) vars: BTreeMap<String, Vec<u8>>,
    limits: StoreLimits,
}

/// A running module.
pub(super) struct Plugin {
    code: Arc<Code>,
    store: Store<Host>,
    instance: Instance,
}

impl Code {
    /// Compiles a module and looks whether we have what it needs.
    pub(super) fn compile(hash: String, bytes: &[u8]) -> Result<Self, WasmError> {
        let unusable = |err: wasmtime::Error| WasmError::Unusable(format!("{err:#}"));
        let module = Module::from_binary(&ENGINE, bytes).map_err(unusable)?;
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
            limits,
        };
        let mut store = Store::new(&ENGINE, host);
        store.limiter(|host| &mut host.limits);
        let unusable = |err: wasmtime::Error| WasmError::Unusable(explain(&err));
        store.set_fuel(FUEL).map_err(unusable)?;
        let instance = code.linker.instantiate(&mut store, &code.module).map_err(unusable)?;
        // Programs that are libraries prepare themselves here.
        if let Some(prepare) = instance.get_func(&mut store, "_initialize") {
            prepare.call(&mut store, &[], &mut []).map_err(unusable)?;
        }
        Ok(Self { code, store, instance })
    }

    /// Whether it runs this code with this configuration.
    pub(super) fn is(&self, code: &Code, config: &BTreeMap<String, String>) -> bool {
        self.code.hash == code.hash && self.store.data().config == *config
    }

    /// Calls a function with an input and gives its output. A plug-in that failed must not be called again.
    pub(super) fn call(&mut self, name: &str, input: Vec<u8>) -> Result<Vec<u8>, WasmError> {
        let failed = |why: String| WasmError::Failed { function: name.to_owned(), why };
        let Some(function) = self.instance.get_func(&mut self.store, name) else {
            return Err(WasmError::Unusable(format!("it has no function `{name}`")));
        };
        let shape = function.ty(&self.store);
        let returns_code = match shape.results().collect::<Vec<_>>().as_slice() {
            [] => false,
            [ValType::I32] => true,
            _ => return Err(WasmError::Unusable(format!("`{name}` does not return an i32"))),
        };
        if shape.params().len() > 0 {
            return Err(WasmError::Unusable(format!("`{name}` takes parameters")));
        }
        self.store.set_fuel(FUEL).map_err(|err| failed(explain(&err)))?;
        let host = self.store.data_mut();
        (host.memory, host.error) = (Memory::default(), None);
        (host.input, host.output) = (input, Vec::new());
        let mut results = [Val::I32(0)];
        let results = if returns_code { results.as_mut_slice() } else { &mut [] };
        let called = function.call(&mut self.store, &[], results);
        let code = results.first().and_then(Val::i32).unwrap_or(0);
        let host = self.store.data_mut();
        match (called, host.error.take()) {
            (Ok(()), None) if code == 0 => Ok(std::mem::take(&mut host.output)),
            (_, Some(said)) => Err(failed(said)),
            (Err(err), None) => Err(failed(explain(&err))),
            (Ok(()), None) => Err(failed(format!("it returned {code}"))),
        }
    }
}

/// Says what ended a module, without the list of its functions.
fn explain(err: &wasmtime::Error) -> String {
    match err.downcast_ref::<wasmtime::Trap>() {
        Some(wasmtime::Trap::OutOfFuel) => "it did not come to an end".to_owned(),
        Some(trap) => trap.to_string(),
        None => err.root_cause().to_string(),
    }
}
