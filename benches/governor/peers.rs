//! What else limits requests in one process: `tokio::sync::Semaphore`, which caps, and the `governor` crate,
//! which paces. Each does a part of what the governor does.

use std::hint::black_box;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::{Duration, Instant};

use actix::System;
use criterion::{Criterion, Throughput};
use tokio::sync::Semaphore;

use crate::book::Book;

const TASKS: u64 = 256;

/// `TASKS` tasks of one thread take turns at `permits` permits. Each holds its permit over one turn of the
/// executor, as a request would: with fewer permits than tasks the others queue.
fn queue(count: u64, permits: usize) -> Duration {
    System::new().block_on(async move {
        let semaphore = Arc::new(Semaphore::new(permits));
        let begin = Instant::now();
        let tasks: Vec<_> = (0..TASKS)
            .map(|task| {
                let semaphore = semaphore.clone();
                let turns = count / TASKS + u64::from(task < count % TASKS);
                actix::spawn(async move {
                    for _ in 0..turns {
                        let permit = semaphore.acquire().await.expect("open");
                        tokio::task::yield_now().await;
                        drop(permit);
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.expect("a task");
        }
        begin.elapsed()
    })
}

fn timed(count: u64, mut once: impl FnMut()) -> Duration {
    let begin = Instant::now();
    for _ in 0..count {
        once();
    }
    begin.elapsed()
}

pub(crate) fn peers(criterion: &mut Criterion, book: &Book) {
    let mut group = criterion.benchmark_group("peers");
    group.throughput(Throughput::Elements(1));

    let semaphore = Semaphore::new(256);
    let name = "tokio Semaphore, try_acquire and drop";
    group.bench_function(name, |bencher| {
        bencher.iter_custom(|count| {
            let once = || drop(black_box(semaphore.try_acquire()));
            book.measure(name, count, || timed(count, once))
        });
    });
    for permits in [256, 1] {
        let name = format!("tokio Semaphore({permits}), acquire().await, 256 tasks");
        group.bench_function(&name, |bencher| {
            bencher.iter_custom(|count| book.measure(&name, count, || queue(count, permits)));
        });
    }

    // Fast enough that it admits: the usual case.
    let fast = NonZeroU32::new(1_000_000_000).expect("not zero");
    let quota = ::governor::Quota::per_second(fast);
    let limiter = ::governor::RateLimiter::direct(quota);
    let name = "governor crate, direct check";
    group.bench_function(name, |bencher| {
        bencher.iter_custom(|count| {
            let once = || {
                let _ = black_box(limiter.check());
            };
            book.measure(name, count, || timed(count, once))
        });
    });
    group.finish();
}
