//! An actor-based crawl engine that keeps every site's limits and loses nothing.
//!
//! Three ways to use it, all of them first class: embedded in an actix application through [`Engine`], as the
//! `crawler-node` binary, and through layered configuration files ([`Settings`]). An application may also use
//! the [`governor`] alone, in front of its own requests.

pub mod calibrate;
pub mod cli;
pub mod engine;
pub mod exchange;
pub mod governor;
pub mod model;
pub mod observe;
pub mod platform;
pub mod settings;
pub mod sim;
pub mod site;
pub mod store;
pub mod supervisor;

pub use engine::{Engine, EngineError, JobHandle, RecordStream};
pub use model::{Job, Mode, Outcome, Record, StoredRecord};
pub use settings::Settings;
pub use site::{Site, SiteDefinition};
pub use supervisor::{Report, RunOutcome};
