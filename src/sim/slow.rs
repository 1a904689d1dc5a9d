//! Hosts that accept and then take their time: some never say a word, some a byte now and then.

use std::io;
use std::net::{IpAddr, Ipv4Addr, TcpListener as StdListener};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;

/// Hosts for one listener: the addresses from 127.1.0.1 on.
const MOST: u16 = 60_000;

/// How often a host that drips says a byte.
const DRIP: Duration = Duration::from_millis(500);

/// Running slow hosts; they end when this is dropped. Only where all of 127.0.0.0/8 is loopback, as on Linux.
///
/// By turns a host hangs without a word, promises a long body and drips it, or drips its head.
#[derive(Debug)]
pub struct SlowHosts {
    hosts: u16,
    port: u16,
    counts: Arc<Connections>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Connections {
    counts: Mutex<Counts>,
    changed: Condvar,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    open: usize,
    peak: usize,
}

impl Connections {
    fn lock(&self) -> MutexGuard<'_, Counts> {
        // Counts stay true enough to look at even after a panic elsewhere.
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Counts a connection while it lives.
struct Open(Arc<Connections>);

impl Open {
    fn new(counts: &Arc<Connections>) -> Self {
        let mut now = counts.lock();
        now.open += 1;
        now.peak = now.peak.max(now.open);
        drop(now);
        counts.changed.notify_all();
        Self(Arc::clone(counts))
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.lock().open -= 1;
        self.0.changed.notify_all();
    }
}

impl SlowHosts {
    /// Starts `hosts` hosts, 1 to 60000, on one port.
    ///
    /// # Errors
    /// What the system says; [`io::ErrorKind::InvalidInput`] for a number out of range.
    pub fn start(hosts: u16) -> io::Result<Self> {
        if !(1..=MOST).contains(&hosts) {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("{hosts} hosts; allowed: 1 to {MOST}"),
            ));
        }
        let listener = StdListener::bind((Ipv4Addr::UNSPECIFIED, 0))?;
        listener.set_nonblocking(true)?;
        let port = listener.local_addr()?.port();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let counts = Arc::new(Connections::default());
        let (stop, stopped) = oneshot::channel();
        let for_thread = Arc::clone(&counts);
        let thread = std::thread::Builder::new()
            .name("slow-hosts".to_owned())
            .spawn(move || runtime.block_on(serve(listener, for_thread, stopped)))?;
        Ok(Self {
            hosts,
            port,
            counts,
            stop: Some(stop),
            thread: Some(thread),
        })
    }

    /// A URL of each host.
    pub fn urls(&self) -> impl Iterator<Item = String> {
        let port = self.port;
        (0..self.hosts).map(move |nth| {
            let [high, low] = nth.to_be_bytes();
            // Neither 0 nor 255 at the end: those could be taken for addresses of networks.
            let (third, fourth) = (high as u16 * 2 + low as u16 / 128, low % 128 + 1);
            format!(
                "http://127.{}.{}.{fourth}:{port}/",
                1 + third / 250,
                third % 250
            )
        })
    }

    /// Connections that are open.
    #[must_use]
    pub fn open(&self) -> usize {
        self.counts.lock().open
    }

    /// The most connections that were open at once.
    #[must_use]
    pub fn peak(&self) -> usize {
        self.counts.lock().peak
    }

    /// Blocks until so many connections are open; `false` when they were not within `deadline`.
    #[must_use]
    pub fn wait_for(&self, open: usize, deadline: Duration) -> bool {
        let wait = self
            .counts
            .changed
            .wait_timeout_while(self.counts.lock(), deadline, |counts| counts.open < open);
        let (counts, _) = wait.unwrap_or_else(PoisonError::into_inner);
        counts.open >= open
    }
}

impl Drop for SlowHosts {
    fn drop(&mut self) {
        // The thread may have ended already; there is nobody to tell then.
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(());
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

async fn serve(listener: StdListener, counts: Arc<Connections>, stopped: oneshot::Receiver<()>) {
    // The listener is bound and non-blocking: only a runtime without a driver could refuse it.
    if let Ok(listener) = TcpListener::from_std(listener) {
        tokio::spawn(async move {
            loop {
                match listener.accept().await {
                    Ok((stream, _)) => {
                        let open = Open::new(&counts);
                        tokio::spawn(dawdle(stream, open));
                    }
                    // Out of descriptors, or the client was gone already: the next may fare better.
                    Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
                }
            }
        });
    }
    // A dropped handle stops the hosts as well.
    let _ = stopped.await;
}

/// Until the client goes away.
async fn dawdle(mut stream: TcpStream, _open: Open) {
    let host = match stream.local_addr().map(|address| address.ip()) {
        Ok(IpAddr::V4(host)) => host.octets()[3],
        _ => 0,
    };
    let first: &[u8] = match host % 3 {
        0 => b"",
        1 => b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n",
        _ => b"HTTP/1.1 200 OK\r\nX-Slow: ",
    };
    if stream.write_all(first).await.is_err() {
        return;
    }
    let mut read = [0; 1024];
    let mut drip = tokio::time::interval(DRIP);
    loop {
        tokio::select! {
            got = stream.read(&mut read) => match got {
                Ok(0) | Err(_) => return,
                Ok(_) => {}
            },
            _ = drip.tick(), if host % 3 != 0 => {
                if stream.write_all(b"x").await.is_err() {
                    return;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_host_has_an_address_of_its_own() {
        let slow = SlowHosts::start(60_000).unwrap();
        let urls: std::collections::HashSet<String> = slow.urls().collect();
        assert_eq!(urls.len(), 60_000);
        for url in urls {
            let url = url::Url::parse(&url).unwrap();
            assert!(url.host_str().unwrap().parse::<Ipv4Addr>().is_ok(), "{url}");
        }
        assert_eq!((slow.open(), slow.peak()), (0, 0));
        assert!(SlowHosts::start(0).is_err());
    }
}
