//! A server that remembers every request with its cookies, and answers what it is told to.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

use crate::support::{DEADLINE, Ran};

/// A request, as far as it matters here.
#[derive(Clone, Debug)]
pub(super) struct Told {
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) path: String,
    /// The `Cookie` field; empty when there is none.
    pub(super) cookie: String,
    /// Requests of this path before it.
    pub(super) nth_of_path: usize,
}

impl Told {
    /// The pairs of the `Cookie` field.
    pub(super) fn cookies(&self) -> Vec<String> {
        let pairs = self.cookie.split("; ").filter(|pair| !pair.is_empty());
        pairs.map(str::to_owned).collect()
    }
}

/// An HTML answer with further fields. With `X-Hang` among them it never comes.
pub(super) fn page(status: u16, more: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 {status} X\r\nContent-Type: text/html\r\nContent-Length: {}\r\n{more}\r\n{body}",
        body.len()
    )
}

#[derive(Default)]
struct Log {
    told: Mutex<Vec<Told>>,
    more: Condvar,
}

/// The server, on all addresses of the loopback. Requests for robots.txt find none, and are not remembered.
pub(super) struct CookieServer {
    port: u16,
    log: Arc<Log>,
}

impl CookieServer {
    pub(super) fn start(answer: impl Fn(&Told) -> String + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("0.0.0.0:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let log = Arc::new(Log::default());
        let (shared, answer) = (log.clone(), Arc::new(answer));
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (log, answer) = (shared.clone(), answer.clone());
                thread::spawn(move || serve(stream, port, &log, answer.as_ref()));
            }
        });
        Self { port, log }
    }

    pub(super) fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    pub(super) fn told(&self) -> Vec<Told> {
        self.log.told.lock().expect("a log").clone()
    }

    /// Waits for a request.
    pub(super) fn wait_for(&self, which: impl Fn(&Told) -> bool) {
        let told = self.log.told.lock().expect("a log");
        let (told, out) = self
            .log
            .more
            .wait_timeout_while(told, DEADLINE, |told| !told.iter().any(&which))
            .expect("a log");
        drop(told);
        assert!(!out.timed_out(), "the request never came");
    }
}

fn serve(stream: TcpStream, port: u16, log: &Log, answer: &dyn Fn(&Told) -> String) -> Option<()> {
    let mut writer = stream.try_clone().ok()?;
    let mut lines = BufReader::new(stream).lines();
    loop {
        let first = lines.next()?.ok()?;
        let mut told = Told {
            host: String::new(),
            port,
            path: first.split(' ').nth(1)?.to_owned(),
            cookie: String::new(),
            nth_of_path: 0,
        };
        while let Some(line) = lines.next()?.ok().filter(|line| !line.is_empty()) {
            let (name, value) = line.split_once(": ")?;
            match name.to_ascii_lowercase().as_str() {
                "host" => told.host = value.split(':').next()?.to_owned(),
                "cookie" => told.cookie = value.to_owned(),
                _ => {}
            }
        }
        let text = if told.path == "/robots.txt" {
            page(404, "", "")
        } else {
            let mut all = log.told.lock().expect("a log");
            told.nth_of_path = all.iter().filter(|known| known.path == told.path).count();
            all.push(told.clone());
            drop(all);
            log.more.notify_all();
            answer(&told)
        };
        if text.contains("X-Hang") {
            // Until the other side is gone.
            lines.next();
            return None;
        }
        writer.write_all(text.as_bytes()).ok()?;
    }
}

/// The command with `text` as its standard input.
pub(super) fn with_input(command: &mut Command, text: &str) -> Ran {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    let mut input = child.stdin.take().expect("an input");
    input.write_all(text.as_bytes()).expect("it is read");
    drop(input);
    let output = child.wait_with_output().expect("it ends");
    Ran {
        code: output.status.code(),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}
