//! The whole HTML tree that the Rust toolchain installs, tens of thousands of pages, served by nginx and crawled
//! from its index: exactly the pages that a walk over the files reaches, each once; and how fast.
//!
//! `cargo bench --bench real_pages`

#![allow(
    missing_docs,
    dead_code,
    clippy::print_stdout,
    reason = "a program that prints figures, made of parts of the tests"
)]

#[path = "../tests/it/real_pages.rs"]
mod real_pages;
#[path = "../tests/it/support.rs"]
mod support;

fn main() {
    if let Some((pages, took)) = real_pages::crawls_exactly("/", 16, 64) {
        println!(
            "{pages} pages, each once, in {:.1} s: {:.0} pages/s",
            took.as_secs_f64(),
            pages as f64 / took.as_secs_f64()
        );
    }
}
