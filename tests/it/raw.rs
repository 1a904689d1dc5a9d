//! A server of the tests' own on any loopback address: it answers with the very bytes it is told, and keeps the very
//! bytes it was asked with.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// The server. Its threads end with the process of the tests.
pub(crate) struct RawServer {
    /// `http://ADDRESS:PORT`.
    pub(crate) base: String,
    heads: Arc<Mutex<Vec<String>>>,
    most: Arc<AtomicUsize>,
}

/// A request as it arrived.
pub(crate) struct Asked<'a> {
    /// Request line, fields and body.
    pub(crate) head: &'a str,
    /// What stands between method and version.
    pub(crate) target: &'a str,
}

impl RawServer {
    /// Listens on `address` (as `127.0.0.2:0`) and answers each request with what `answer` makes of it.
    pub(crate) fn start(
        address: &str,
        answer: impl Fn(&Asked<'_>) -> Vec<u8> + Send + Sync + 'static,
    ) -> Self {
        Self::on(TcpListener::bind(address).expect("a free port"), answer)
    }

    /// As [`start`](Self::start), where the answers must know the address.
    pub(crate) fn on(
        listener: TcpListener,
        answer: impl Fn(&Asked<'_>) -> Vec<u8> + Send + Sync + 'static,
    ) -> Self {
        let base = format!("http://{}", listener.local_addr().expect("an address"));
        let (heads, most): (Arc<Mutex<Vec<String>>>, Arc<AtomicUsize>) = Default::default();
        let busy = Arc::new(AtomicUsize::new(0));
        let answer = Arc::new(answer);
        let (kept, peak) = (heads.clone(), most.clone());
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (heads, most, busy) = (kept.clone(), peak.clone(), busy.clone());
                let answer = answer.clone();
                thread::spawn(move || {
                    serve(stream, &|head| {
                        most.fetch_max(busy.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                        let target = target_of(head);
                        lock(&heads).push(head.to_owned());
                        let bytes = answer(&Asked { head, target });
                        busy.fetch_sub(1, Ordering::SeqCst);
                        bytes
                    });
                });
            }
        });
        Self { base, heads, most }
    }

    /// The heads of all requests so far, in order of arrival.
    pub(crate) fn heads(&self) -> Vec<String> {
        lock(&self.heads).clone()
    }

    /// The targets of all requests so far, but for robots.txt, in order of arrival.
    pub(crate) fn targets(&self) -> Vec<String> {
        let heads = self.heads();
        let targets = heads.iter().map(|head| target_of(head).to_owned());
        targets.filter(|target| target != "/robots.txt").collect()
    }

    /// The most requests that were being answered at once.
    pub(crate) fn most_at_once(&self) -> usize {
        self.most.load(Ordering::SeqCst)
    }
}

fn target_of(head: &str) -> &str {
    head.split(' ').nth(1).unwrap_or_default()
}

fn lock<T>(shared: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Requests of one connection, until the client closes it or the answer is cut.
fn serve(mut stream: TcpStream, answer: &dyn Fn(&str) -> Vec<u8>) {
    let mut read = Vec::new();
    let mut chunk = [0; 4096];
    loop {
        let end = loop {
            if let Some(end) = read.windows(4).position(|four| four == b"\r\n\r\n") {
                break end + 4;
            }
            match stream.read(&mut chunk) {
                Ok(0) | Err(_) => return,
                Ok(count) => read.extend_from_slice(&chunk[..count]),
            }
        };
        let head = String::from_utf8_lossy(&read[..end]).to_ascii_lowercase();
        let length = head
            .lines()
            .find_map(|line| line.strip_prefix("content-length: "));
        let end = end + length.map_or(0, |length| length.parse().expect("a length"));
        while read.len() < end {
            match stream.read(&mut chunk) {
                Ok(0) | Err(_) => return,
                Ok(count) => read.extend_from_slice(&chunk[..count]),
            }
        }
        let head = String::from_utf8_lossy(&read[..end]).into_owned();
        read.drain(..end);
        let bytes = answer(&head);
        let whole = !bytes.starts_with(b"CUT ");
        let bytes = if whole { &bytes[..] } else { &bytes[4..] };
        if stream.write_all(bytes).is_err() || !whole {
            return;
        }
    }
}

/// An answer with a length.
pub(crate) fn answer(status: u16, fields: &[u8], body: &str) -> Vec<u8> {
    let mut bytes = format!(
        "HTTP/1.1 {status} Raw\r\nContent-Length: {}\r\n",
        body.len()
    )
    .into_bytes();
    bytes.extend_from_slice(fields);
    bytes.extend_from_slice(b"\r\n");
    bytes.extend_from_slice(body.as_bytes());
    bytes
}

/// A page whose body is `body`.
pub(crate) fn page(body: &str) -> Vec<u8> {
    answer(
        200,
        b"Content-Type: text/html; charset=utf-8\r\n",
        &format!("<title>page</title>{body}"),
    )
}

/// A redirect with these bytes as its Location.
pub(crate) fn redirect(status: u16, location: impl AsRef<[u8]>) -> Vec<u8> {
    answer(
        status,
        &[b"Location: ", location.as_ref(), b"\r\n"].concat(),
        "moved",
    )
}

/// The answer to robots.txt that says nothing.
pub(crate) fn missing() -> Vec<u8> {
    answer(404, b"", "no\n")
}

/// Takes this long, as a page that must be worked on.
pub(crate) fn working(time: Duration) {
    thread::sleep(time);
}
