//! The product from outside: the binary, the engine and its actors against servers that count for themselves.

#![allow(missing_docs, reason = "tests are read, not documented")]

mod both_times;
mod calibrate;
mod caps;
mod caps_on_items;
mod cli;
mod egress;
mod embed;
mod governor_jobs;
mod hints;
mod kill_points;
mod layers;
mod limits;
mod manners;
mod media;
mod peers;
mod persons;
mod raw;
mod real_pages;
mod redirects;
mod restarts;
mod sessions;
mod shared_limits;
mod simulate;
mod slow_hosts;
mod stop;
mod support;
mod told;
mod urls;
