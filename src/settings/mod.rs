//! The layered configuration of a node.
//!
//! Every layer becomes a list of leaves that know where they were set ([`Origin`]); each leaf is checked by
//! the table of keys; the `config` crate merges the layers; the merged leaves are read into [`Settings`].
//! So all problems come out in one run, and every effective value can name its source.

mod effect;
mod egress;
mod env;
mod error;
mod field;
mod file;
mod given;
mod keys;
mod layer;
mod load;
mod loaded;
mod origin;
mod polite;
mod schema;
mod value;

#[cfg(test)]
mod tests;

pub use egress::EgressSettings;
pub use error::{Problem, SettingsError, SettingsErrors};
pub use load::{LoadOptions, Override};
pub use loaded::Loaded;
pub use origin::{Layer, Origin, Provenance};
pub use polite::{CacheMode, CacheSettings, CrawlDelay, RobotsSettings};
pub use schema::{
    BackoffSettings, ExchangeSettings, LimitMode, LimitSettings, LogLevel, LogSettings, Profile,
    RetrySettings, Settings, SiteSettings, SiteUrlSettings, StoreSettings,
};
pub(crate) use value::parse_bytes;
pub use value::{Quota, Rate, Secret};
