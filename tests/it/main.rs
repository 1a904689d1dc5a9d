//! The product from outside: the binary, the engine and its actors against servers that count for themselves.

#![allow(missing_docs, reason = "tests are read, not documented")]

mod caps;
mod caps_on_items;
mod cli;
mod embed;
mod kill_points;
mod layers;
mod limits;
mod real_pages;
mod restarts;
mod stop;
mod support;
