//! A host of files that says what each test wants.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use bytes::Bytes;

use crate::support::DEADLINE;

/// One answer.
pub(super) struct Reply {
    status: u16,
    fields: Vec<String>,
    body: Bytes,
    chunked: bool,
    hangs_after: Option<usize>,
}

impl Reply {
    pub(super) fn ok(body: Bytes) -> Self {
        Self {
            status: 200,
            fields: Vec::new(),
            body,
            chunked: false,
            hangs_after: None,
        }
    }

    /// The rest that `head` asks for.
    pub(super) fn rest_of(head: &str, file: &Bytes) -> Self {
        let range = tag(head, "range").expect("a range");
        let from: usize = range["bytes=".len()..range.len() - 1]
            .parse()
            .expect("a number");
        let total = file.len();
        Self::ok(file.slice(from..)).status(206).field(&format!(
            "Content-Range: bytes {from}-{}/{total}",
            total - 1
        ))
    }

    pub(super) fn status(mut self, status: u16) -> Self {
        self.status = status;
        self
    }

    pub(super) fn field(mut self, field: &str) -> Self {
        self.fields.push(field.to_owned());
        self
    }

    /// Without an announced length.
    pub(super) fn chunked(mut self) -> Self {
        self.chunked = true;
        self
    }

    /// After so many bytes of the body nothing more comes.
    pub(super) fn hangs_after(mut self, bytes: usize) -> Self {
        self.hangs_after = Some(bytes);
        self
    }

    fn write(self, stream: &mut TcpStream) -> std::io::Result<()> {
        let framing = match self.chunked {
            true => "Transfer-Encoding: chunked".to_owned(),
            false => format!("Content-Length: {}", self.body.len()),
        };
        let fields = [self.fields, vec![framing]].concat().join("\r\n");
        write!(stream, "HTTP/1.1 {} X\r\n{fields}\r\n\r\n", self.status)?;
        if self.chunked {
            for chunk in self.body.chunks(10_000) {
                write!(stream, "{:x}\r\n", chunk.len())?;
                stream.write_all(chunk)?;
                stream.write_all(b"\r\n")?;
            }
            return stream.write_all(b"0\r\n\r\n");
        }
        let sent = self.hangs_after.unwrap_or(self.body.len());
        stream.write_all(&self.body[..sent])?;
        if self.hangs_after.is_some() {
            // Until the client is gone.
            let _ = stream.read(&mut [0]);
        }
        Ok(())
    }
}

/// The value of a field of a request, by its name in lower case.
pub(super) fn tag(head: &str, name: &str) -> Option<String> {
    head.lines().find_map(|line| {
        let (field, value) = line.split_once(": ")?;
        field.eq_ignore_ascii_case(name).then(|| value.to_owned())
    })
}

/// The next head of a request.
pub(super) fn read_head(stream: &mut TcpStream) -> Option<String> {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        if stream.read(&mut byte).unwrap_or(0) == 0 {
            return None;
        }
        head.push(byte[0]);
    }
    Some(String::from_utf8_lossy(&head).into_owned())
}

/// The host: request number n is answered by what the test makes of n and its head.
pub(super) struct Host {
    pub(super) base: String,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Host {
    pub(super) fn start(answer: impl Fn(usize, &str) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let base = format!("http://{}", listener.local_addr().expect("an address"));
        let requests: Arc<Mutex<Vec<String>>> = Arc::default();
        let (seen, answer) = (requests.clone(), Arc::new(answer));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (mut stream, seen, answer) =
                    (stream.expect("a client"), seen.clone(), answer.clone());
                std::thread::spawn(move || {
                    while let Some(head) = read_head(&mut stream) {
                        let nth = {
                            let mut seen = seen.lock().expect("no panic");
                            seen.push(head.clone());
                            seen.len() - 1
                        };
                        if answer(nth, &head).write(&mut stream).is_err() {
                            return;
                        }
                    }
                });
            }
        });
        Self { base, requests }
    }

    pub(super) fn requests(&self) -> Vec<String> {
        self.requests.lock().expect("no panic").clone()
    }

    /// Waits for what another process does.
    pub(super) fn wait_until(&self, done: impl Fn() -> bool) {
        let start = Instant::now();
        while !done() {
            assert!(start.elapsed() < DEADLINE, "asked: {:?}", self.requests());
            std::thread::yield_now();
        }
    }
}
