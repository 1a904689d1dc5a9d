//! Permits per second: the ledger on one core, the actor with its askers on the same arbiter and on others, and
//! what else limits requests in one process: `cargo bench --bench governor`.
//!
//! The unit is one permit asked for, granted and given back.

#![allow(clippy::print_stdout, reason = "a program that prints figures")]

mod actor;
mod book;
mod ledger;
mod peers;

use std::sync::Arc;
use std::time::Duration;

use crawler_node::governor::LaneKey;
use criterion::Criterion;

use self::book::Book;

const PATIENCE: Duration = Duration::from_secs(3600);

fn key(site: usize, endpoint: usize) -> Arc<LaneKey> {
    Arc::new(LaneKey {
        site: format!("site{site}").as_str().into(),
        host: None,
        endpoint: format!("endpoint{endpoint}").as_str().into(),
    })
}

fn main() {
    let mut criterion = Criterion::default()
        .measurement_time(Duration::from_secs(3))
        .warm_up_time(Duration::from_secs(1))
        .configure_from_args();
    let book = Book::default();
    ledger::ledger(&mut criterion);
    actor::actor(&mut criterion, &book);
    peers::peers(&mut criterion, &book);
    criterion.final_summary();
    book.print();
}
