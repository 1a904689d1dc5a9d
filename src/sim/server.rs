//! The loopback server: a thread of its own with a listener for each site.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener as StdListener};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::book::Book;
use super::connection::Connection;
use super::content::Content;
use super::counts::{Counts, LogEntry};
use super::knobs::{KnobError, Knobs};

/// What a server is to serve.
#[derive(Clone, Debug, Default)]
pub struct SimConfig {
    /// The sites, each on a port of its own.
    pub sites: Vec<SiteSpec>,
    /// How many requests the log keeps, from the first on; 0: no log.
    pub log_limit: usize,
}

impl SimConfig {
    /// One site, without a log.
    #[must_use]
    pub fn one(site: SiteSpec) -> Self {
        Self {
            sites: vec![site],
            log_limit: 0,
        }
    }
}

/// One site of a server.
#[derive(Clone)]
pub struct SiteSpec {
    name: String,
    content: Arc<dyn Content>,
    knobs: Knobs,
}

impl SiteSpec {
    /// A site called `name` that answers everything at once.
    #[must_use]
    pub fn new(name: &str, content: impl Content) -> Self {
        Self {
            name: name.to_owned(),
            content: Arc::new(content),
            knobs: Knobs::default(),
        }
    }

    /// The same with other knobs.
    #[must_use]
    pub fn knobs(mut self, knobs: Knobs) -> Self {
        self.knobs = knobs;
        self
    }
}

impl fmt::Debug for SiteSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SiteSpec")
            .field("name", &self.name)
            .field("knobs", &self.knobs)
            .finish_non_exhaustive()
    }
}

/// A running server; it ends when this is dropped.
#[derive(Debug)]
pub struct Server {
    addresses: BTreeMap<String, SocketAddr>,
    first: SocketAddr,
    shared: Arc<Shared>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// The book, and who waits for it to change.
#[derive(Debug)]
pub(super) struct Shared {
    start: Instant,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    book: Book,
    waiting: u32,
}

impl Shared {
    /// Does something to the book, with the time since the start.
    pub(super) fn write<T>(&self, entry: impl FnOnce(&mut Book, Duration) -> T) -> T {
        let mut state = self.lock();
        let value = entry(&mut state.book, self.start.elapsed());
        if state.waiting > 0 {
            self.changed.notify_all();
        }
        value
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Counts stay true enough to look at even after a panic elsewhere.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Server {
    /// Starts to serve on free ports of 127.0.0.1.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] with a [`KnobError`] where the configuration is wrong; else what the system says.
    pub fn start(config: SimConfig) -> io::Result<Self> {
        let mut book = Book::new(config.log_limit);
        let mut listeners = Vec::with_capacity(config.sites.len());
        let mut addresses = BTreeMap::new();
        let mut first = None;
        for site in config.sites {
            book.add_site(&site.name, site.content.classes(), &site.knobs)
                .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
            let listener = StdListener::bind((Ipv4Addr::LOCALHOST, 0))?;
            listener.set_nonblocking(true)?;
            let address = listener.local_addr()?;
            first.get_or_insert(address);
            addresses.insert(site.name, address);
            listeners.push((listener, site.content));
        }
        let first = first.ok_or_else(|| {
            io::Error::new(io::ErrorKind::InvalidInput, KnobError::Names(String::new()))
        })?;
        let shared = Arc::new(Shared {
            start: Instant::now(),
            state: Mutex::new(State { book, waiting: 0 }),
            changed: Condvar::new(),
        });
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let (stop, stopped) = oneshot::channel();
        let for_thread = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("sim-server".to_owned())
            .spawn(move || runtime.block_on(serve(listeners, for_thread, stopped)))?;
        Ok(Self {
            addresses,
            first,
            shared,
            stop: Some(stop),
            thread: Some(thread),
        })
    }

    /// The address of the first site.
    #[must_use]
    pub const fn addr(&self) -> SocketAddr {
        self.first
    }

    /// The address of a site.
    #[must_use]
    pub fn addr_of(&self, site: &str) -> Option<SocketAddr> {
        self.addresses.get(site).copied()
    }

    /// `http://127.0.0.1:PORT` of a site, without a slash at the end.
    #[must_use]
    pub fn base_url(&self, site: &str) -> Option<String> {
        self.addr_of(site)
            .map(|address| format!("http://{address}"))
    }

    /// What was counted so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.shared.lock().book.counts()
    }

    /// The log so far.
    #[must_use]
    pub fn log(&self) -> Vec<LogEntry> {
        self.shared.lock().book.log()
    }

    /// Sets the knobs of a site for all requests that arrive from now on. Limits that stay keep what they remember.
    ///
    /// # Errors
    /// When there is no such site or class, or a number is out of range; nothing changes then.
    pub fn set_knobs(&self, site: &str, knobs: &Knobs) -> Result<(), KnobError> {
        self.shared.write(|book, _| book.set_knobs(site, knobs))
    }

    /// Blocks until the counts are as wanted; `false` when they were not within `deadline`.
    #[must_use]
    pub fn wait_for(&self, deadline: Duration, wanted: impl Fn(&Counts) -> bool) -> bool {
        let mut state = self.shared.lock();
        state.waiting += 1;
        let (mut state, timeout) = self
            .shared
            .changed
            .wait_timeout_while(state, deadline, |state| !wanted(&state.book.counts()))
            .unwrap_or_else(PoisonError::into_inner);
        state.waiting -= 1;
        !timeout.timed_out()
    }

    /// Ends the server and all its connections; gives what was counted to the end.
    pub fn stop(mut self) -> Counts {
        self.end();
        self.counts()
    }

    fn end(&mut self) {
        // The thread may have ended already; there is nobody to tell then.
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(());
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
    }
}

/// Accepts until it is told to stop; the connections end with the runtime.
async fn serve(
    listeners: Vec<(StdListener, Arc<dyn Content>)>,
    shared: Arc<Shared>,
    stopped: oneshot::Receiver<()>,
) {
    for (site, (listener, content)) in listeners.into_iter().enumerate() {
        // The listener is bound and non-blocking: only a runtime without a driver could refuse it.
        if let Ok(listener) = TcpListener::from_std(listener) {
            tokio::spawn(accept(listener, content, Arc::clone(&shared), site));
        }
    }
    // A dropped handle stops the server as well.
    let _ = stopped.await;
}

async fn accept(
    listener: TcpListener,
    content: Arc<dyn Content>,
    shared: Arc<Shared>,
    site: usize,
) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                let (shared, content) = (Arc::clone(&shared), Arc::clone(&content));
                let connection = Connection::new(stream, shared, content, site);
                tokio::spawn(connection.serve());
            }
            // Out of descriptors, or the client was gone already: the next may fare better.
            Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
        }
    }
}
