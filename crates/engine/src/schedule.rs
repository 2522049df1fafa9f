//! Runs the scheduler against this engine.

use std::sync::Arc;

use process::{Random, Supervised};

use crate::core::Core;
use crate::service::Service;

/// Starts scheduling. It ends when the engine stops.
pub(crate) fn start(core: &Arc<Core>) -> Supervised {
    let client = kube::Client::new(Service::new(Arc::clone(core)), "default");
    let settings = scheduler::Settings {
        clock: core.clock.clone(),
        // Only the jitter of retries, which scatters nothing here: there is one client of this kind.
        random: Random::seeded(0),
        supervisor: core.supervisor.clone(),
        ..scheduler::Settings::default()
    };
    let stopping = core.stopping();
    core.supervisor.spawn("scheduler", move || {
        let scheduling = scheduler::run(client.clone(), settings.clone());
        let mut stopping = stopping.clone();
        async move {
            tokio::select! {
                biased;
                _ = stopping.wait_for(|stopping| *stopping) => {}
                () = scheduling => {}
            }
        }
    })
}
