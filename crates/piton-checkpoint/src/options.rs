//! What a writer tells about itself.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crate::hook::FileHook;

/// What goes into every manifest a [`Store`](crate::Store) writes. The clock comes in here and nowhere else.
#[derive(Clone)]
#[non_exhaustive]
pub struct StoreOptions {
    /// Name of the run; any text.
    pub run_id: String,
    /// Digest of the run's configuration; any text.
    pub config_digest: String,
    /// What exact resumption depends on: libtorch version, CPU level, thread count.
    pub environment: BTreeMap<String, String>,
    /// Who holds the lock, told to those who find it taken: host, start time. The process id is added.
    pub holder: String,
    /// Open a store that another run wrote, and make it this run's.
    pub adopt: bool,
    /// Gives the time for manifests, in milliseconds since 1970 UTC.
    pub now_unix_ms: Arc<dyn Fn() -> u64 + Send + Sync>,
    /// Sees every system call; for tests.
    pub hook: Option<Arc<dyn FileHook>>,
}

impl StoreOptions {
    /// Options with an empty environment and no hook.
    pub fn new(
        run_id: impl Into<String>,
        config_digest: impl Into<String>,
        now_unix_ms: impl Fn() -> u64 + Send + Sync + 'static,
    ) -> Self {
        Self {
            run_id: run_id.into(),
            config_digest: config_digest.into(),
            environment: BTreeMap::new(),
            holder: String::new(),
            adopt: false,
            now_unix_ms: Arc::new(now_unix_ms),
            hook: None,
        }
    }

    /// Sets the environment.
    #[must_use]
    pub fn environment(mut self, environment: BTreeMap<String, String>) -> Self {
        self.environment = environment;
        self
    }

    /// Sets what others are told about the lock's holder.
    #[must_use]
    pub fn holder(mut self, holder: impl Into<String>) -> Self {
        self.holder = holder.into();
        self
    }

    /// Opens the store even if it belongs to another run, which is then no longer its owner. Without this such a store
    /// is refused with [`Error::OtherRun`](crate::Error::OtherRun), so that two jobs never mix their checkpoints.
    #[must_use]
    pub fn adopt(mut self) -> Self {
        self.adopt = true;
        self
    }

    /// Sets the hook.
    #[must_use]
    pub fn hook(mut self, hook: Arc<dyn FileHook>) -> Self {
        self.hook = Some(hook);
        self
    }
}

impl fmt::Debug for StoreOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreOptions")
            .field("run_id", &self.run_id)
            .field("config_digest", &self.config_digest)
            .field("environment", &self.environment)
            .field("holder", &self.holder)
            .finish_non_exhaustive()
    }
}
