//! What does a Wasm module answer?
//!
//! A module is fetched from its URL, compiled once for each content, and kept running for each autoscaler that asks it, so
//! that what it remembers lasts. A module whose hash is given is never fetched again; any other is fetched again after
//! five minutes, and if that fails the one at hand is asked on.

mod host;
mod memory;
mod plugin;
mod wasi;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use api::autoscaling::{FleetAutoscaleReview, WasmPolicy, WebhookConfig};
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;

use crate::ask::why;
use crate::call::{CallError, Callers};
use crate::webhook::review;
use plugin::{Code, Plugin};

/// The largest module that is fetched.
const LIMIT: usize = 32 << 20;
/// How long a module without a hash is used before it is looked for again.
const FRESH_FOR: Duration = Duration::from_secs(300);
/// How many modules are kept compiled, and how many autoscalers' running.
const KEPT: usize = 256;

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
}

#[derive(Default)]
struct Kept {
    /// By where they come from.
    sources: HashMap<Source, Fetched>,
    /// By their content.
    compiled: HashMap<String, Arc<Code>>,
    /// By the autoscaler that asks.
    running: HashMap<String, Plugin>,
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

impl Modules {
    /// Asks the module of a policy for the autoscaler `who`.
    pub(crate) async fn ask(
        &self,
        callers: &Callers,
        who: &str,
        policy: &WasmPolicy,
        question: &FleetAutoscaleReview,
    ) -> Result<FleetAutoscaleReview, WasmError> {
        let code = self.code(callers, policy).await?;
        let running = self.with(|kept| kept.running.remove(who));
        let running = running.filter(|plugin| plugin.is(&code, &policy.config));
        let input = serde_json::to_vec(question).unwrap_or_default();
        let (function, config) = (policy.function.clone(), policy.config.clone());
        // It computes, and it may do so for a while: not where others wait.
        let called = tokio::task::spawn_blocking(move || {
            let mut plugin = match running {
                Some(plugin) => plugin,
                None => Plugin::start(code, config)?,
            };
            let output = plugin.call(&function, input)?;
            Ok((plugin, function, output))
        });
        let (plugin, function, output) =
            called.await.map_err(|err| WasmError::Unusable(err.to_string()))??;
        self.with(|kept| {
            if kept.running.len() >= KEPT {
                kept.running.clear();
            }
            kept.running.insert(who.to_owned(), plugin)
        });
        review(&output).map_err(|problem| WasmError::NotAReview { function, problem })
    }

    /// Ends what runs for an autoscaler, and for the entries of its chain.
    pub(crate) fn forget(&self, who: &str) {
        self.with(|kept| kept.running.retain(|name, _| !name.starts_with(who)));
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
        let code = match self.with(|kept| kept.compiled.get(&found).cloned()) {
            Some(code) => code,
            None => {
                let hash = found.clone();
                let compiled = tokio::task::spawn_blocking(move || Code::compile(hash, &bytes));
                Arc::new(compiled.await.map_err(|err| WasmError::Unusable(err.to_string()))??)
            }
        };
        self.keep(from, &code);
        Ok(code)
    }

    /// Finds a module that needs no fetching, and whether it is fresh enough.
    fn at_hand(&self, from: &WebhookConfig, wanted: &str) -> Option<(Arc<Code>, bool)> {
        self.with(|kept| {
            if !wanted.is_empty() {
                return Some((Arc::clone(kept.compiled.get(wanted)?), true));
            }
            let fetched = kept.sources.get(&Source::of(from))?;
            let code = Arc::clone(kept.compiled.get(&fetched.hash)?);
            Some((code, fetched.fetched_at.elapsed() < FRESH_FOR))
        })
    }

    fn keep(&self, from: &WebhookConfig, code: &Arc<Code>) {
        self.with(|kept| {
            if kept.compiled.len() >= KEPT || kept.sources.len() >= KEPT {
                kept.compiled.clear();
                kept.sources.clear();
            }
            let fetched = Fetched { hash: code.hash.clone(), fetched_at: Instant::now() };
            kept.sources.insert(Source::of(from), fetched);
            kept.compiled.insert(code.hash.clone(), Arc::clone(code));
        });
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
