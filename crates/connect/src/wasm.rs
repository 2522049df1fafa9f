//! What does a Wasm module answer?
//!
//! A module is fetched from its URL, compiled once for each content, and kept running for each autoscaler that asks it, so
//! that what it remembers lasts. A module whose hash is given is never fetched again; any other is fetched again after
//! five minutes, and if that fails the one at hand is asked on. What a module may cost is in `budget`; when its autoscaler
//! goes, or nobody waits for the answer any more, it is stopped.

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
use sha2::{Digest as _, Sha256};
use tokio::sync::OnceCell;
use tokio::time::Instant;

use crate::ask::why;
use crate::call::{CallError, Callers};
use crate::webhook::review;
use budget::{Budget, Limits};
use plugin::{Code, Plugin};
use recent::Recent;

/// The largest module that is fetched.
const LIMIT: usize = 32 << 20;
/// How long a module without a hash is used before it is looked for again.
const FRESH_FOR: Duration = Duration::from_secs(300);
/// How many modules are kept compiled, and how many autoscalers' running.
const KEPT: usize = 256;
/// How many bytes the modules may have that are kept compiled.
const COMPILED_BYTES: usize = 4 * LIMIT;
/// How many bytes the modules may take that are kept running.
const RUNNING_BYTES: usize = 4 * plugin::MEMORY;

/// Why a module has no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WasmError {
    /// The policy does not say where the module is.
    #[error("`wasm.from.url` is missing")]
    NoSource,
    /// The module could not be fetched.
    #[error("could not fetch the module")]
    Fetch(#[source] CallError),
    /// The module is another one.
    #[error("the module has the SHA-256 {found}; `hash` wants {wanted}")]
    Hash {
        /// That of the fetched module.
        found: String,
        /// That of the policy.
        wanted: String,
    },
    /// The module is none, or needs what it does not get.
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
    /// The answer is not what was asked for.
    #[error("`{function}` of the module did not answer with a FleetAutoscaleReview: {problem}")]
    NotAReview {
        /// The function that was called.
        function: String,
        /// What was found instead.
        problem: String,
    },
}

/// Modules, compiled and running.
#[derive(Default)]
pub(crate) struct Modules {
    kept: Mutex<Kept>,
    limits: Limits,
}

/// A module that is compiled once; an error is why that is not possible.
type Compiled = Arc<OnceCell<Result<Arc<Code>, String>>>;

struct Kept {
    /// By where they come from.
    sources: HashMap<Source, Fetched>,
    /// By their content.
    compiled: Recent<Compiled>,
    /// By the autoscaler that asks.
    running: Recent<Plugin>,
    /// Who waits for an answer, and what tells that they no longer do.
    underway: HashMap<u64, (String, Arc<AtomicBool>)>,
    next: u64,
}

impl Default for Kept {
    fn default() -> Self {
        Self {
            sources: HashMap::new(),
            compiled: Recent::new(KEPT, COMPILED_BYTES),
            running: Recent::new(KEPT, RUNNING_BYTES),
            underway: HashMap::new(),
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

/// A question under way. When this is dropped, the module that works on it is stopped.
struct Underway<'a> {
    modules: &'a Modules,
    id: u64,
    cancelled: Arc<AtomicBool>,
}

impl Drop for Underway<'_> {
    fn drop(&mut self) {
        self.cancelled.store(true, Ordering::Relaxed);
        self.modules.with(|kept| kept.underway.remove(&self.id));
    }
}

impl Modules {
    /// Asks the module of a policy for the autoscaler `who`.
    pub(crate) async fn ask(
        &self,
        callers: &Callers,
        who: &str,
        policy: &WasmPolicy,
        question: &FleetAutoscaleReview,
    ) -> Result<FleetAutoscaleReview, WasmError> {
        let underway = self.begin(who);
        let code = self.code(callers, policy).await?;
        let running = self.with(|kept| kept.running.remove(who));
        let running = running.filter(|plugin| plugin.is(&code, &policy.config));
        let input = serde_json::to_vec(question).unwrap_or_default();
        let (function, config) = (policy.function.clone(), policy.config.clone());
        let budget = Budget::new(self.limits, Arc::clone(&underway.cancelled));
        // It computes, and it may do so for a while: not where others wait.
        let called = tokio::task::spawn_blocking(move || {
            let mut plugin = match running {
                Some(plugin) => plugin,
                None => Plugin::start(code, config, budget.clone())?,
            };
            let output = plugin.call(&function, input, budget)?;
            Ok((plugin, function, output))
        });
        let (plugin, function, output) =
            called.await.map_err(|err| WasmError::Unusable(err.to_string()))??;
        self.with(|kept| {
            // An autoscaler that went meanwhile leaves nothing behind.
            if !underway.cancelled.load(Ordering::Relaxed) {
                let size = plugin.size();
                kept.running.insert(who.to_owned(), plugin, size);
            }
        });
        review(&output).map_err(|problem| WasmError::NotAReview { function, problem })
    }

    /// Ends what runs for an autoscaler, and for the entries of its chain.
    pub(crate) fn forget(&self, who: &str) {
        let is_its = |name: &str| {
            name.strip_prefix(who).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        self.with(|kept| {
            kept.running.retain(|name| !is_its(name));
            for (name, cancelled) in kept.underway.values() {
                if is_its(name) {
                    cancelled.store(true, Ordering::Relaxed);
                }
            }
        });
    }

    /// Notes that an autoscaler waits for an answer.
    fn begin(&self, who: &str) -> Underway<'_> {
        let cancelled = Arc::new(AtomicBool::new(false));
        let id = self.with(|kept| {
            kept.next += 1;
            kept.underway.insert(kept.next, (who.to_owned(), Arc::clone(&cancelled)));
            kept.next
        });
        Underway { modules: self, id, cancelled }
    }

    /// Finds the module of a policy, compiled.
    async fn code(&self, callers: &Callers, policy: &WasmPolicy) -> Result<Arc<Code>, WasmError> {
        let from = policy.from.url.as_ref().ok_or(WasmError::NoSource)?;
        let wanted = policy.hash.to_ascii_lowercase();
        let at_hand = self.at_hand(from, &wanted);
        if let Some((code, true)) = at_hand {
            return Ok(code);
        }
        let fetched = callers.call(from, LIMIT, |client, url| client.get(url)).await;
        let bytes = match (fetched, at_hand) {
            (Ok(bytes), _) => bytes,
            (Err(err), Some((code, _))) => {
                tracing::warn!(
                    why = why(err),
                    "a module could not be fetched again; the old one is asked"
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
            kept.sources.insert(Source::of(from), fetched);
        });
        Ok(code)
    }

    /// Finds a module that needs no fetching, and whether it is fresh enough.
    fn at_hand(&self, from: &WebhookConfig, wanted: &str) -> Option<(Arc<Code>, bool)> {
        self.with(|kept| {
            let (hash, is_fresh) = if wanted.is_empty() {
                let fetched = kept.sources.get(&Source::of(from))?;
                (fetched.hash.as_str(), fetched.fetched_at.elapsed() < FRESH_FOR)
            } else {
                (wanted, true)
            };
            let code = kept.compiled.get(hash)?.get()?.as_ref().ok()?;
            Some((Arc::clone(code), is_fresh))
        })
    }

    /// Compiles a module, unless that was done before or somebody else is at it.
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

    fn with<T>(&self, what: impl FnOnce(&mut Kept) -> T) -> T {
        what(&mut self.kept.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Source {
    fn of(config: &WebhookConfig) -> Self {
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
    async fn a_content_is_compiled_once_however_many_ask_at_once() {
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
