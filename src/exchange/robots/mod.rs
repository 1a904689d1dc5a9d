//! robots.txt by RFC 9309: where it lies, how it is read, how long it is good, and what it allows.
//!
//! All of it is pure but [`read_robots`], which is handed the way to make one exchange. Permits, storing and waiting are
//! the caller's.

mod fresh;
mod host;
mod read;
mod rules;
#[cfg(test)]
mod tests;
mod text;

pub use host::{HostRobots, RobotsTimes, Standing};
pub use read::{MOST_ROBOTS_REDIRECTS, RobotsAnswer, RobotsRead, read_robots};
pub use rules::{Robots, product_token, robots_url};
