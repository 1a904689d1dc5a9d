//! A server of the tests' own that answers as it is told to, and notes when it was asked.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

/// An answer: status, and fields beside those that frame it.
pub(crate) struct Told {
    pub(crate) status: u16,
    pub(crate) fields: Vec<(&'static str, String)>,
    pub(crate) body: String,
}

impl Told {
    pub(crate) fn page(links: &[&str]) -> Self {
        let links: String = links
            .iter()
            .map(|link| format!("<a href=\"{link}\">to</a> "))
            .collect();
        Self {
            status: 200,
            fields: Vec::new(),
            body: format!("<html><title>page</title><body>{links}</body></html>"),
        }
    }

    pub(crate) fn status(status: u16) -> Self {
        Self {
            status,
            fields: Vec::new(),
            body: "no\n".to_owned(),
        }
    }

    pub(crate) fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.fields.push((name, value.into()));
        self
    }
}

/// A request as it arrived, and when its answer had been written.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) at: Instant,
    pub(crate) told: Option<Instant>,
}

/// The server. Its threads end with the process of the tests.
pub(crate) struct Teller {
    pub(crate) base: String,
    log: Arc<Mutex<Vec<Asked>>>,
}

impl Teller {
    /// Answer each request with what `answer` makes of its path and of its number, from 0.
    pub(crate) fn start(answer: impl Fn(&str, usize) -> Told + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let base = format!("http://{}", listener.local_addr().expect("an address"));
        let log = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&log);
        let answer = Arc::new(answer);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (log, answer) = (Arc::clone(&kept), Arc::clone(&answer));
                thread::spawn(move || serve(stream, &log, &*answer));
            }
        });
        Self { base, log }
    }

    /// All requests so far, in order of arrival.
    pub(crate) fn log(&self) -> Vec<Asked> {
        lock(&self.log).clone()
    }
}

fn lock(log: &Mutex<Vec<Asked>>) -> std::sync::MutexGuard<'_, Vec<Asked>> {
    log.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Requests of one connection, until the client closes it.
fn serve(stream: TcpStream, log: &Mutex<Vec<Asked>>, answer: &dyn Fn(&str, usize) -> Told) {
    let mut writer = stream.try_clone().expect("a second handle");
    let mut lines = BufReader::new(stream).lines();
    loop {
        let Some(Ok(first)) = lines.next() else {
            return;
        };
        while lines
            .next()
            .is_some_and(|line| line.is_ok_and(|line| !line.is_empty()))
        {}
        let path = first.split(' ').nth(1).unwrap_or_default().to_owned();
        let nth = {
            let mut log = lock(log);
            log.push(Asked {
                at: Instant::now(),
                told: None,
            });
            log.len() - 1
        };
        let told = answer(&path, nth);
        let mut text = format!(
            "HTTP/1.1 {} Told\r\nContent-Type: text/html\r\nContent-Length: {}\r\n",
            told.status,
            told.body.len()
        );
        for (name, value) in &told.fields {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        text.push_str("\r\n");
        text.push_str(&told.body);
        // Before it is written: the client cannot be ahead of this.
        lock(log)[nth].told = Some(Instant::now());
        if writer.write_all(text.as_bytes()).is_err() {
            return;
        }
    }
}

/// Seconds since 1970 now, by a clock that is `late` behind.
pub(crate) fn since_1970(late: Duration) -> Duration {
    SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .expect("after 1970")
        - late
}

/// An HTTP-date.
pub(crate) fn http_date(since_1970: Duration) -> String {
    httpdate::fmt_http_date(SystemTime::UNIX_EPOCH + since_1970)
}
