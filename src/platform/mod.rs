//! PlatformActors: one per site of a job. They lease tasks, make the exchanges and hand in what they found.

mod actor;
mod answers;
mod ask;
pub mod budget;
mod context;
mod ended;
pub mod health;
mod hops;
mod known;
mod media;
mod messages;
mod permit;
mod person;
mod reading;
pub mod retry;
mod robots;
mod saving;
mod sessions;
mod shares;
mod way;
mod worker;

pub use actor::PlatformActor;
pub use context::{Assignment, Credit};
pub use messages::{Crash, Dismiss, PlatformGone, SiteEnd, SiteEnded, Stop};
pub(crate) use robots::judge as judge_robots;
pub use sessions::{Held, Sessions};
