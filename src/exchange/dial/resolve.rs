//! Host names to addresses: one cache for all clients of a node, and a few threads that ask the system.
//!
//! The system's resolver knows `/etc/hosts`, search domains and whatever else the machine is set up with. It blocks, for
//! half a minute where a name server is silent, so it runs on threads of its own: a runtime would wait at its end for
//! those of its blocking pool.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::io;
use std::net::{IpAddr, ToSocketAddrs};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;
use tokio::time::Instant;

use super::names::{Lifetimes, NameCache, Resolved};
use crate::model::Timestamp;

/// Lookups at one time: what a start with many hosts asks of the name server at once.
const MOST_LOOKUPS: usize = 64;

/// Finds the addresses of a host name.
pub trait Lookup: Send + Sync + 'static {
    /// The addresses of `host`, best first. May block.
    ///
    /// # Errors
    /// When the name has none, or nobody answers.
    fn lookup(&self, host: &str) -> io::Result<Vec<IpAddr>>;
}

/// The resolver of the system.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemLookup;

impl Lookup for SystemLookup {
    fn lookup(&self, host: &str) -> io::Result<Vec<IpAddr>> {
        Ok((host, 0)
            .to_socket_addrs()?
            .map(|address| address.ip())
            .collect())
    }
}

/// The names that a node knows. Clones share them.
#[derive(Clone)]
pub(in crate::exchange) struct Names(Arc<Inner>);

struct Inner {
    lookup: Box<dyn Lookup>,
    state: Mutex<State>,
    born: Instant,
}

struct State {
    known: NameCache,
    /// Lookups that run or wait for a thread, and who listens to them.
    flights: HashMap<Arc<str>, watch::Receiver<Option<Resolved>>>,
    queue: VecDeque<(Arc<str>, watch::Sender<Option<Resolved>>)>,
    threads: usize,
}

impl fmt::Debug for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Names").finish_non_exhaustive()
    }
}

impl Names {
    pub(in crate::exchange) fn new(lookup: impl Lookup, lifetimes: Lifetimes) -> Self {
        Self(Arc::new(Inner {
            lookup: Box::new(lookup),
            state: Mutex::new(State {
                known: NameCache::new(lifetimes),
                flights: HashMap::new(),
                queue: VecDeque::new(),
                threads: 0,
            }),
            born: Instant::now(),
        }))
    }

    /// The addresses of `host`, a name or a literal. Who asks for a name that is being looked up waits for that lookup.
    /// Dropping the future gives up the wait, not the lookup.
    pub(super) async fn resolve(&self, host: &str) -> Resolved {
        if let Ok(literal) = host.parse::<IpAddr>() {
            return Ok(Arc::new([literal]));
        }
        let mut flight = {
            let mut state = self.0.lock();
            if let Some(known) = state.known.look(self.0.now(), host) {
                return known;
            }
            match state.flights.get(host) {
                Some(flight) => flight.clone(),
                None => self.take_off(&mut state, host),
            }
        };
        match flight.wait_for(Option::is_some).await {
            Ok(landed) => landed.clone().unwrap_or_else(|| Err("no answer".into())),
            Err(_) => Err("no thread to look the name up".into()),
        }
    }

    fn take_off(&self, state: &mut State, host: &str) -> watch::Receiver<Option<Resolved>> {
        let host: Arc<str> = host.into();
        let (tell, flight) = watch::channel(None);
        state.queue.push_back((Arc::clone(&host), tell));
        if state.threads < MOST_LOOKUPS {
            let names = self.clone();
            let started = std::thread::Builder::new()
                .name("names".to_owned())
                .spawn(move || names.0.work());
            match started {
                Ok(_) => state.threads += 1,
                // Without any thread nobody would ever answer: who waits hears of it when the sender is dropped.
                Err(_) if state.threads == 0 => {
                    state.queue.clear();
                    state.flights.clear();
                    return flight;
                }
                Err(_) => {}
            }
        }
        state.flights.insert(host, flight.clone());
        flight
    }
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Whoever panicked: each change of the state is whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Timestamp {
        Timestamp::ZERO + self.born.elapsed()
    }

    /// Looks names up until none waits.
    fn work(&self) {
        while let Some((host, tell)) = self.next() {
            let looked = catch_unwind(AssertUnwindSafe(|| self.lookup.lookup(&host)));
            let answer = match looked {
                Ok(Ok(addresses)) if addresses.is_empty() => Err("it has no address".into()),
                Ok(Ok(addresses)) => Ok(addresses.into()),
                Ok(Err(error)) => Err(error.to_string().into()),
                Err(_) => Err("the resolver panicked".into()),
            };
            let mut state = self.lock();
            state
                .known
                .learn(self.now(), &host, Resolved::clone(&answer));
            state.flights.remove(&host);
            drop(state);
            tell.send_replace(Some(answer));
        }
    }

    /// The next name that somebody still waits for; `None`: the thread may end.
    fn next(&self) -> Option<(Arc<str>, watch::Sender<Option<Resolved>>)> {
        let mut state = self.lock();
        while let Some((host, tell)) = state.queue.pop_front() {
            // One receiver is the table's own.
            if tell.receiver_count() > 1 {
                return Some((host, tell));
            }
            state.flights.remove(&host);
        }
        state.threads -= 1;
        None
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Condvar, mpsc};
    use std::time::Duration;

    use super::*;

    const LIFETIMES: Lifetimes = Lifetimes {
        found: Duration::from_secs(60),
        failed: Duration::from_secs(60),
    };

    /// Answers when it is told to, and counts.
    #[derive(Default)]
    struct Gate {
        open: Mutex<bool>,
        opened: Condvar,
        running: AtomicUsize,
        peak: AtomicUsize,
        asked: AtomicUsize,
    }

    struct Gated(Arc<Gate>);

    impl Lookup for Gated {
        fn lookup(&self, host: &str) -> io::Result<Vec<IpAddr>> {
            let gate = &self.0;
            gate.asked.fetch_add(1, Ordering::SeqCst);
            let running = gate.running.fetch_add(1, Ordering::SeqCst) + 1;
            gate.peak.fetch_max(running, Ordering::SeqCst);
            if host.starts_with("slow") {
                let mut open = gate.open.lock().unwrap();
                while !*open {
                    open = gate.opened.wait(open).unwrap();
                }
            }
            gate.running.fetch_sub(1, Ordering::SeqCst);
            Ok(vec![IpAddr::from([1, 2, 3, 4])])
        }
    }

    fn gated() -> (Names, Arc<Gate>) {
        let gate = Arc::new(Gate::default());
        (Names::new(Gated(Arc::clone(&gate)), LIFETIMES), gate)
    }

    fn open(gate: &Gate) {
        *gate.open.lock().unwrap() = true;
        gate.opened.notify_all();
    }

    #[actix_rt::test]
    async fn l54_a_slow_resolver_does_not_block_other_hosts() {
        let (names, gate) = gated();
        let slow = names.clone();
        let waiting = actix_rt::spawn(async move { slow.resolve("slow.example").await });
        for number in 0..100 {
            names.resolve(&format!("{number}.example")).await.unwrap();
        }
        assert!(!waiting.is_finished());
        open(&gate);
        waiting.await.unwrap().unwrap();
    }

    #[actix_rt::test]
    async fn l54_a_name_is_looked_up_once_for_all_who_ask() {
        let (names, gate) = gated();
        let asking = (0..50).map(|_| names.resolve("slow.example"));
        let all = futures_util::future::join_all(asking);
        let opener = async { open(&gate) };
        let (answers, ()) = futures_util::future::join(all, opener).await;
        assert!(answers.iter().all(Result::is_ok));
        names.resolve("slow.example").await.unwrap();
        assert_eq!(gate.asked.load(Ordering::SeqCst), 1);
    }

    #[actix_rt::test]
    async fn l54_a_stampede_is_capped() {
        let (names, gate) = gated();
        let hosts: Vec<_> = (0..1000).map(|n| format!("slow{n}.example")).collect();
        let all = futures_util::future::join_all(hosts.iter().map(|host| names.resolve(host)));
        let opener = async {
            while gate.asked.load(Ordering::SeqCst) < MOST_LOOKUPS {
                tokio::task::yield_now().await;
            }
            open(&gate);
        };
        let (answers, ()) = futures_util::future::join(all, opener).await;
        assert!(answers.iter().all(Result::is_ok));
        assert_eq!(gate.asked.load(Ordering::SeqCst), 1000);
        assert_eq!(gate.peak.load(Ordering::SeqCst), MOST_LOOKUPS);
    }

    #[actix_rt::test]
    async fn names_nobody_waits_for_are_not_looked_up() {
        let (names, gate) = gated();
        let hosts: Vec<_> = (0..MOST_LOOKUPS + 500)
            .map(|n| format!("slow{n}.example"))
            .collect();
        let all = futures_util::future::join_all(hosts.iter().map(|host| names.resolve(host)));
        let given_up = async {
            while gate.asked.load(Ordering::SeqCst) < MOST_LOOKUPS {
                tokio::task::yield_now().await;
            }
        };
        futures_util::future::select(Box::pin(all), Box::pin(given_up)).await;
        open(&gate);
        names.resolve("other.example").await.unwrap();
        assert!(gate.asked.load(Ordering::SeqCst) <= MOST_LOOKUPS + 1);
    }

    #[actix_rt::test]
    async fn a_resolver_that_panics_is_a_failure_of_that_name() {
        struct Panics(mpsc::SyncSender<()>);
        impl Lookup for Panics {
            fn lookup(&self, host: &str) -> io::Result<Vec<IpAddr>> {
                let _ = self.0.try_send(());
                assert!(!host.starts_with("bad"), "told to");
                Ok(vec![IpAddr::from([1, 2, 3, 4])])
            }
        }
        let names = Names::new(Panics(mpsc::sync_channel(1).0), LIFETIMES);
        assert!(names.resolve("bad.example").await.is_err());
        assert!(names.resolve("good.example").await.is_ok());
    }

    #[actix_rt::test]
    async fn literals_and_the_hosts_file_are_known() {
        let names = Names::new(SystemLookup, LIFETIMES);
        let v6 = names.resolve("::1").await.unwrap();
        assert_eq!(v6[..], ["::1".parse::<IpAddr>().unwrap()]);
        let local = names.resolve("localhost").await.unwrap();
        assert!(local.iter().all(IpAddr::is_loopback));
        assert!(names.resolve("no-such-name.invalid").await.is_err());
    }
}
