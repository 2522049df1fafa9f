//! Runs the Wasm modules of autoscalers.
//!
//! A module is fetched from its URL, compiled once for each content, and kept running for each autoscaler that calls it, so
//! that its variables last. A module whose hash is given is never fetched again; any other is fetched again after
//! five minutes, and if that fails the previous one stays in use. The limits of a call are in `budget`. A module is
//! stopped when its autoscaler is deleted or its caller has cancelled the call.

mod budget;
mod host;
mod memory;
mod plugin;
mod recent;
mod wasi;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use api::autoscaling::{FleetAutoscaleReview, WasmPolicy, WebhookConfig};
use process::{Clock, Random};
use sha2::{Digest as _, Sha256};
use tokio::sync::OnceCell;
use tokio::time::Instant;

use crate::ask::why;
use crate::call::{CallError, Callers};
use crate::webhook::review;
use budget::{Budget, Limits};
use plugin::{Code, Plugin};
use recent::LruCache;

/// The largest module that is fetched.
const LIMIT: usize = 32 << 20;
/// How long a module without a hash is used before it is fetched again.
const FRESH_FOR: Duration = Duration::from_secs(300);
/// How many compiled modules are kept, and how many running ones.
const KEPT: usize = 256;
/// The total size of the compiled modules that are kept.
const COMPILED_BYTES: usize = 4 * LIMIT;
/// The total memory of the running modules that are kept.
const RUNNING_BYTES: usize = 4 * plugin::MEMORY;

/// Why a module returned no result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WasmError {
    /// The policy has no URL for the module.
    #[error("`wasm.from.url` is missing")]
    NoSource,
    /// The module could not be fetched.
    #[error("could not fetch the module")]
    Fetch(#[source] CallError),
    /// The module does not have the expected hash.
    #[error("the SHA-256 of the module is {found}, but `hash` is {wanted}")]
    Hash {
        /// The hash of the fetched module.
        found: String,
        /// The hash in the policy.
        wanted: String,
    },
    /// It is not a valid module, or it needs an import that does not exist.
    #[error("the module cannot be used: {0}")]
    Unusable(String),
    /// The module ran and failed.
    #[error("`{function}` of the module failed: {why}")]
    Failed {
        /// The function that was called.
        function: String,
        /// What went wrong.
        why: String,
    },
    /// The result is no review.
    #[error("`{function}` of the module did not return a FleetAutoscaleReview: {problem}")]
    NotAReview {
        /// The function that was called.
        function: String,
        /// What was found instead.
        problem: String,
    },
}

/// The compiled and the running modules.
#[derive(Default)]
pub(crate) struct Modules {
    kept: Mutex<ModuleCache>,
    limits: Limits,
    surroundings: Surroundings,
}

/// The time and the random numbers that modules read.
#[derive(Clone, Default)]
pub(crate) struct Surroundings {
    pub(crate) clock: Clock,
    pub(crate) random: Random,
}

/// A module that is compiled once, or the reason why it cannot be.
type Compiled = Arc<OnceCell<Result<Arc<Code>, String>>>;

struct ModuleCache {
    /// By their origin.
    sources: HashMap<Source, Fetched>,
    /// By their content.
    compiled: LruCache<Compiled>,
    /// By the autoscaler that calls them.
    running: LruCache<Plugin>,
    /// The calls in progress: the autoscaler, and the flag that cancels the call.
    calls: HashMap<u64, (String, Arc<AtomicBool>)>,
    next: u64,
}

impl Default for ModuleCache {
    fn default() -> Self {
        Self {
            sources: HashMap::new(),
            compiled: LruCache::new(KEPT, COMPILED_BYTES),
            running: LruCache::new(KEPT, RUNNING_BYTES),
            calls: HashMap::new(),
            next: 0,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Source {
    url: String,
    ca_bundle: Vec<u8>,
}

struct Fetched {
    hash: String,
    fetched_at: Instant,
}

/// A call in progress. When this is dropped, the module is stopped.
struct ActiveCall<'a> {
    modules: &'a Modules,
    id: u64,
    cancelled: Arc<AtomicBool>,
}

impl Drop for ActiveCall<'_> {
    fn drop(&mut self) {
        self.cancelled.store(true, Ordering::Relaxed);
        self.modules.with(|kept| kept.calls.remove(&self.id));
    }
}

impl Modules {
    /// Starts without modules.
    pub(crate) fn new(surroundings: Surroundings) -> Self {
        Self { surroundings, ..Self::default() }
    }

    /// Calls the module of a policy for an autoscaler.
    pub(crate) async fn call(
        &self,
        callers: &Callers,
        autoscaler: &str,
        policy: &WasmPolicy,
        request: &FleetAutoscaleReview,
    ) -> Result<FleetAutoscaleReview, WasmError> {
        let active = self.begin(autoscaler);
        let code = self.code(callers, policy).await?;
        let running = self.with(|kept| kept.running.remove(autoscaler));
        let running = running.filter(|plugin| plugin.is(&code, &policy.config));
        let input = serde_json::to_vec(request).unwrap_or_default();
        let (function, config) = (policy.function.clone(), policy.config.clone());
        let budget = Budget::new(self.limits, Arc::clone(&active.cancelled));
        let surroundings = self.surroundings.clone();
        // It may compute for seconds, which would block other tasks.
        let called = tokio::task::spawn_blocking(move || {
            let mut plugin = match running {
                Some(plugin) => plugin,
                None => Plugin::start(code, config, surroundings, budget.clone())?,
            };
            let output = plugin.call(&function, input, budget)?;
            Ok((plugin, function, output))
        });
        let (plugin, function, output) =
            called.await.map_err(|err| WasmError::Unusable(err.to_string()))??;
        self.with(|kept| {
            // The autoscaler may have been deleted in the meantime.
            if !active.cancelled.load(Ordering::Relaxed) {
                let size = plugin.size();
                kept.running.insert(autoscaler.to_owned(), plugin, size);
            }
        });
        review(&output).map_err(|problem| WasmError::NotAReview { function, problem })
    }

    /// Stops the modules of an autoscaler, and those of the entries of its chain.
    pub(crate) fn forget(&self, autoscaler: &str) {
        let is_its = |name: &str| {
            name.strip_prefix(autoscaler)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        self.with(|kept| {
            kept.running.retain(|name| !is_its(name));
            for (name, cancelled) in kept.calls.values() {
                if is_its(name) {
                    cancelled.store(true, Ordering::Relaxed);
                }
            }
        });
    }

    /// Registers a call of an autoscaler.
    fn begin(&self, autoscaler: &str) -> ActiveCall<'_> {
        let cancelled = Arc::new(AtomicBool::new(false));
        let id = self.with(|kept| {
            kept.next += 1;
            kept.calls.insert(kept.next, (autoscaler.to_owned(), Arc::clone(&cancelled)));
            kept.next
        });
        ActiveCall { modules: self, id, cancelled }
    }

    /// Returns the compiled module of a policy.
    async fn code(&self, callers: &Callers, policy: &WasmPolicy) -> Result<Arc<Code>, WasmError> {
        let from = policy.from.url.as_ref().ok_or(WasmError::NoSource)?;
        let wanted = policy.hash.to_ascii_lowercase();
        let cached = self.cached(from, &wanted);
        if let Some((code, true)) = cached {
            return Ok(code);
        }
        let fetched = callers.call(from, LIMIT, |client, url| client.get(url)).await;
        let bytes = match (fetched, cached) {
            (Ok(bytes), _) => bytes,
            (Err(err), Some((code, _))) => {
                tracing::warn!(
                    error = why(err),
                    "could not fetch a module again; the previous one stays in use"
                );
                return Ok(code);
            }
            (Err(err), None) => return Err(WasmError::Fetch(err)),
        };
        let found = hex(&Sha256::digest(&bytes));
        if !wanted.is_empty() && wanted != found {
            return Err(WasmError::Hash { found, wanted });
        }
        let code = self.compiled(&found, bytes).await.map_err(WasmError::Unusable)?;
        self.with(|kept| {
            if kept.sources.len() >= KEPT {
                kept.sources.clear();
            }
            let fetched = Fetched { hash: found, fetched_at: Instant::now() };
            kept.sources.insert(Source::from_config(from), fetched);
        });
        Ok(code)
    }

    /// Returns a module that was fetched before, and whether it is fresh enough.
    fn cached(&self, from: &WebhookConfig, wanted: &str) -> Option<(Arc<Code>, bool)> {
        self.with(|kept| {
            let (hash, is_fresh) = if wanted.is_empty() {
                let fetched = kept.sources.get(&Source::from_config(from))?;
                (fetched.hash.as_str(), fetched.fetched_at.elapsed() < FRESH_FOR)
            } else {
                (wanted, true)
            };
            let code = kept.compiled.get(hash)?.get()?.as_ref().ok()?;
            Some((Arc::clone(code), is_fresh))
        })
    }

    /// Compiles a module once, also for concurrent callers.
    async fn compiled(
        &self,
        hash: &str,
        bytes: impl AsRef<[u8]> + Send + 'static,
    ) -> Result<Arc<Code>, String> {
        let cell = self.with(|kept| match kept.compiled.get(hash) {
            Some(cell) => Arc::clone(cell),
            None => {
                let cell = Compiled::default();
                let size = bytes.as_ref().len();
                kept.compiled.insert(hash.to_owned(), Arc::clone(&cell), size);
                cell
            }
        });
        let compile = || async {
            let hash = hash.to_owned();
            let done = tokio::task::spawn_blocking(move || Code::compile(hash, bytes.as_ref()));
            done.await.map_err(|err| err.to_string())?.map(Arc::new)
        };
        cell.get_or_init(compile).await.clone()
    }

    fn with<T>(&self, what: impl FnOnce(&mut ModuleCache) -> T) -> T {
        what(&mut self.kept.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Source {
    fn from_config(config: &WebhookConfig) -> Self {
        let url = crate::call::url(config).map(String::from).unwrap_or_default();
        let ca_bundle = config.ca_bundle.as_ref().map(|b| b.0.clone()).unwrap_or_default();
        Self { url, ca_bundle }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_content_is_compiled_once_for_concurrent_calls() {
        let modules = Arc::new(Modules::default());
        let ask = |text: &'static str| {
            let modules = Arc::clone(&modules);
            tokio::spawn(async move { modules.compiled(text, wat::parse_str(text).unwrap()).await })
        };
        let asked = (0..20).map(|_| ask(r#"(module (func (export "scale")))"#));
        let all = futures_of(asked.collect()).await;
        assert!(all.iter().all(|code| Arc::ptr_eq(code, &all[0])));
        let other = futures_of(vec![ask("(module)")]).await;
        assert!(!Arc::ptr_eq(&other[0], &all[0]));
    }

    async fn futures_of(
        asked: Vec<tokio::task::JoinHandle<Result<Arc<Code>, String>>>,
    ) -> Vec<Arc<Code>> {
        let mut all = Vec::new();
        for code in asked {
            all.push(code.await.unwrap().unwrap());
        }
        all
    }
}
