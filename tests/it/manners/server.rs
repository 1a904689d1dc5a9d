//! A server that writes the bytes it is told to, and notes what it was asked.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Instant;

/// A request as it arrived.
#[derive(Clone, Debug)]
pub(super) struct Heard {
    pub(super) at: Instant,
    pub(super) path: String,
    /// How many requests for this path came before it.
    pub(super) nth: usize,
    /// Header fields, names in lower case.
    pub(super) fields: Vec<(String, String)>,
}

impl Heard {
    pub(super) fn field(&self, name: &str) -> Option<&str> {
        let mut fields = self.fields.iter();
        fields
            .find(|(of, _)| of == name)
            .map(|(_, value)| value.as_str())
    }
}

/// What is said to it.
pub(super) enum Say {
    /// These bytes; the connection is kept.
    Bytes(Vec<u8>),
    /// A reset instead of an answer.
    Reset,
    /// Nothing, until the client gives up.
    Hang,
}

/// An answer with a length.
pub(super) fn say(status: u16, fields: &[(&str, &str)], body: impl AsRef<[u8]>) -> Say {
    let body = body.as_ref();
    let mut bytes = format!("HTTP/1.1 {status} Said\r\n").into_bytes();
    for (name, value) in fields {
        bytes.extend_from_slice(format!("{name}: {value}\r\n").as_bytes());
    }
    if status != 204 && status != 304 {
        bytes.extend_from_slice(format!("Content-Length: {}\r\n", body.len()).as_bytes());
    }
    bytes.extend_from_slice(b"\r\n");
    bytes.extend_from_slice(body);
    Say::Bytes(bytes)
}

/// A page with links.
pub(super) fn page(fields: &[(&str, &str)], links: &[&str]) -> Say {
    let links: String = links
        .iter()
        .map(|link| format!("<a href=\"{link}\">to</a> "))
        .collect();
    let html = [("Content-Type", "text/html")];
    let fields: Vec<_> = html.into_iter().chain(fields.iter().copied()).collect();
    say(
        200,
        &fields,
        format!("<title>page</title><body>{links}</body>"),
    )
}

type Log = Arc<Mutex<Vec<Heard>>>;

/// The server. Its threads end with the process of the tests.
pub(super) struct Raw {
    pub(super) base: String,
    log: Log,
}

impl Raw {
    pub(super) fn start(answer: impl Fn(&Heard) -> Say + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let base = format!("http://{}", listener.local_addr().expect("an address"));
        let (log, answer) = (Log::default(), Arc::new(answer));
        let kept = log.clone();
        let counts = Arc::new(Mutex::new(HashMap::new()));
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (log, answer, counts) = (kept.clone(), answer.clone(), counts.clone());
                thread::spawn(move || serve(stream, &log, &counts, &*answer));
            }
        });
        Self { base, log }
    }

    pub(super) fn url(&self, path: &str) -> String {
        format!("{}{path}", self.base)
    }

    /// All requests so far.
    pub(super) fn log(&self) -> Vec<Heard> {
        self.log
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Requests for robots.txt, and all others.
    pub(super) fn counts(&self) -> (usize, usize) {
        let log = self.log();
        let robots = log.iter().filter(|heard| heard.path == "/robots.txt");
        let robots = robots.count();
        (robots, log.len() - robots)
    }

    /// The paths asked, robots.txt left out.
    pub(super) fn paths(&self) -> Vec<String> {
        let log = self.log().into_iter();
        log.map(|heard| heard.path)
            .filter(|path| path != "/robots.txt")
            .collect()
    }
}

/// Closes a connection so that the other side is told of a reset.
fn reset(stream: TcpStream) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build()
        .expect("a runtime");
    let _inside = runtime.enter();
    stream.set_nonblocking(true).expect("a socket");
    let stream = tokio::net::TcpStream::from_std(stream).expect("a socket");
    stream.set_zero_linger().expect("lingers no more");
}

fn serve(
    stream: TcpStream,
    log: &Mutex<Vec<Heard>>,
    counts: &Mutex<HashMap<String, usize>>,
    answer: &dyn Fn(&Heard) -> Say,
) {
    let mut writer = stream.try_clone().expect("a second handle");
    let mut lines = BufReader::new(stream).lines();
    while let Some(Ok(first)) = lines.next() {
        let fields = lines
            .by_ref()
            .map_while(Result::ok)
            .take_while(|line| !line.is_empty())
            .filter_map(|line| {
                let (name, value) = line.split_once(": ")?;
                Some((name.to_ascii_lowercase(), value.to_owned()))
            })
            .collect();
        let path = first.split(' ').nth(1).unwrap_or_default().to_owned();
        let heard = {
            let mut counts = counts.lock().unwrap_or_else(PoisonError::into_inner);
            let count = counts.entry(path.clone()).or_default();
            *count += 1;
            Heard {
                at: Instant::now(),
                path,
                nth: *count - 1,
                fields,
            }
        };
        log.lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(heard.clone());
        match answer(&heard) {
            Say::Bytes(bytes) => {
                if writer.write_all(&bytes).is_err() {
                    return;
                }
            }
            Say::Reset => {
                reset(writer);
                return;
            }
            // The next line comes, or the connection ends, when the client gives up.
            Say::Hang => {
                let _ = lines.next();
                return;
            }
        }
    }
}
