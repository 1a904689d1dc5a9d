//! A scenario: an origin, its clients, their demand, and what happens meanwhile.

use std::time::Duration;

use super::origin::OriginSpec;
use crate::settings::LimitSettings;
use crate::sim::Limit;

/// Everything that decides a run, beside the seed and the control.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    /// By which it is called.
    pub name: String,
    /// One line for people.
    pub about: String,
    /// How long it runs.
    pub lasts: Duration,
    /// The server.
    pub origin: OriginSpec,
    /// Clients with a control of their own each, on the one origin; at least 1.
    pub clients: usize,
    /// Of each client.
    pub demand: Demand,
    /// In order of time.
    pub changes: Vec<Change>,
    /// Requests a second of strangers, evenly over the endpoints, which do not heed anything.
    pub strangers: f64,
    /// What befalls the clients.
    pub chaos: Chaos,
    /// What the clients' own configuration says.
    pub configured: Configured,
    /// One way.
    pub wire: Duration,
    /// After which a client gives an exchange up.
    pub timeout: Duration,
    /// Left out of the steady figures.
    pub warm_up: Duration,
}

impl Default for Scenario {
    fn default() -> Self {
        let mut origin = OriginSpec::default();
        origin.endpoints.push(Vec::new());
        Self {
            name: String::new(),
            about: String::new(),
            lasts: Duration::from_secs(120),
            origin,
            clients: 1,
            demand: Demand::Always,
            changes: Vec::new(),
            strangers: 0.0,
            chaos: Chaos::default(),
            configured: Configured::default(),
            wire: Duration::from_millis(10),
            timeout: Duration::from_secs(10),
            warm_up: Duration::from_secs(30),
        }
    }
}

/// How much there is to ask.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Demand {
    /// Always another task.
    Always,
    /// So many tasks, evenly over the endpoints. The run ends when all are done.
    Total(u64),
    /// So many tasks a second on the mean, at random instants, evenly over the endpoints.
    PerSecond(f64),
}

/// Other limits from a moment on.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// Since the start.
    pub at: Duration,
    /// In place of the origin's.
    pub limits: Vec<Limit>,
    /// In place of the origin's; as many endpoints.
    pub endpoints: Vec<Vec<Limit>>,
}

/// What befalls the clients' own machinery.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Chaos {
    /// Share of permits that come to nothing: half before they were used, half while the answer was under way.
    pub dropped: f64,
    /// When every client's control dies and comes back.
    pub restarts: Vec<Duration>,
}

/// What a client's own configuration says of its limits. Only the governor heeds it, not the other laws.
#[derive(Clone, Debug, PartialEq)]
pub struct Configured {
    /// The global cap.
    pub max_concurrency_num: u32,
    /// Limits of the site.
    pub site: LimitSettings,
    /// Of each endpoint; those beyond the end have none.
    pub endpoints: Vec<LimitSettings>,
}

impl Default for Configured {
    /// Nothing but a global cap that does not bind.
    fn default() -> Self {
        Self {
            max_concurrency_num: 2_000,
            site: LimitSettings::default(),
            endpoints: Vec::new(),
        }
    }
}
