//! A semaphore of 16, asking again at once: what a crawler without rate control does (Scrapy's
//! `CONCURRENT_REQUESTS` has this default).

use super::{Answer, Ask, Law};

const WORKERS: u32 = 16;

pub(super) struct Fixed;

impl Fixed {
    pub(super) const fn new() -> Self {
        Self
    }
}

impl Law for Fixed {
    fn gate(&mut self, _: f64, out: u32) -> Ask {
        if out < WORKERS { Ask::Go } else { Ask::Full }
    }

    fn answer(&mut self, _: &Answer) {}

    fn view(&self) -> (f64, Option<u32>) {
        (f64::INFINITY, Some(WORKERS))
    }
}
