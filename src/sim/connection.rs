//! One connection: reads requests, asks the book, spends the latency, writes answers.

use std::io;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::book::{End, Verdict, Visit};
use super::content::{Answer, Content, Request};
use super::http::{self, Framing, Head, MAX_BODY, MAX_HEAD, Malformed};
use super::knobs::{FaultKind, Refusal, RetryAfter};
use super::server::Shared;

/// Where robots.txt lies.
const ROBOTS_PATH: &str = "/robots.txt";
/// The framing of a chunked body may take as much again as the body.
const MAX_BUFFER: usize = MAX_HEAD + 2 * MAX_BODY;

pub(super) struct Connection {
    stream: TcpStream,
    shared: Arc<Shared>,
    content: Arc<dyn Content>,
    site: usize,
    number: u64,
    /// Bytes read and not yet used.
    input: Vec<u8>,
    /// The body of a chunked request, decoded.
    chunked: Vec<u8>,
    resource: Vec<u8>,
    output: Vec<u8>,
}

/// Why a connection ends before the client closes it.
enum Broken {
    Io,
    Malformed(u16),
}

impl From<io::Error> for Broken {
    fn from(_: io::Error) -> Self {
        Self::Io
    }
}

impl From<Malformed> for Broken {
    fn from(malformed: Malformed) -> Self {
        Self::Malformed(malformed.0)
    }
}

/// A visit that is ended even when the connection's task is dropped.
struct Guard<'a> {
    shared: &'a Shared,
    visit: Visit,
    open: bool,
}

impl Guard<'_> {
    fn end(&mut self, resource: &[u8], end: End) {
        self.open = false;
        self.shared
            .write(|book, now| book.end(now, &self.visit, resource, end));
    }
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        if self.open {
            self.end(&[], End::Aborted);
        }
    }
}

impl Connection {
    pub(super) fn new(
        stream: TcpStream,
        shared: Arc<Shared>,
        content: Arc<dyn Content>,
        site: usize,
    ) -> Self {
        let number = shared.write(|book, _| book.connect(site));
        Self {
            stream,
            shared,
            content,
            site,
            number,
            input: Vec::new(),
            chunked: Vec::new(),
            resource: Vec::new(),
            output: Vec::new(),
        }
    }

    /// Serves until the client is done, a fault ends the connection, or a request cannot be read.
    pub(super) async fn serve(mut self) {
        // A connection that cannot be tuned still serves.
        let _ = self.stream.set_nodelay(true);
        loop {
            match self.exchange().await {
                Ok(true) => {}
                Ok(false) | Err(Broken::Io) => return,
                Err(Broken::Malformed(status)) => {
                    self.shared.write(|book, _| book.malformed(self.site));
                    let answer = Answer::new(status, "text/plain", "cannot be read\n");
                    self.output.clear();
                    frame(&mut self.output, &answer, &[], true, true);
                    // The client is told where it still listens.
                    let _ = self.stream.write_all(&self.output).await;
                    return;
                }
            }
        }
    }

    /// One request and its answer; `false` when the connection is to end.
    async fn exchange(&mut self) -> Result<bool, Broken> {
        let Some(head) = self.read_head().await? else {
            return Ok(false);
        };
        let shared = Arc::clone(&self.shared);
        let target = text(&self.input[head.target.clone()]);
        let path = target.split('?').next().unwrap_or_default();
        let class = (path != ROBOTS_PATH).then(|| self.content.class_of(target));
        let method = text(&self.input[head.method.clone()]);
        let visit = shared
            .write(|book, now| book.begin(now, self.site, class, self.number, method, target));
        let mut guard = Guard {
            shared: &shared,
            visit,
            open: true,
        };

        let request_len = self.read_body(&head).await?;
        let request = Request {
            method: text(&self.input[head.method.clone()]),
            target: text(&self.input[head.target.clone()]),
            host: text(&self.input[head.host.clone()]),
            content_type: text(&self.input[head.content_type.clone()]),
            range: text(&self.input[head.range.clone()]),
            if_range: text(&self.input[head.if_range.clone()]),
            body: match head.body {
                Framing::Length(_) => &self.input[head.len..request_len],
                Framing::Chunked => &self.chunked,
            },
        };
        self.resource.clear();
        for part in [
            request.method.as_bytes(),
            b" ",
            request.target.as_bytes(),
            b"\n",
            request.body,
        ] {
            self.resource.extend_from_slice(part);
        }
        let verdict = shared
            .write(|book, now| book.decide(now, &mut guard.visit, &self.resource, request.target));

        let mut retry_after = None;
        let (answer, latency, cut) = match verdict {
            Verdict::Refuse { refusal, wait } => {
                retry_after = tell_wait(&refusal, wait);
                (refused(&refusal), refusal.after, None)
            }
            Verdict::Serve { latency, fault } => {
                let (answer, cut) = self.answer(&request, class.is_none(), fault);
                (answer, latency, cut)
            }
        };
        let with_body = request.method != "HEAD";
        self.input.drain(..request_len);
        self.spend(latency).await?;
        match cut {
            Some(FaultKind::Hang) => return self.hang().await,
            Some(FaultKind::Reset) => {
                guard.end(&self.resource, End::Cut);
                // Zero linger makes the close a reset.
                let _ = self.stream.set_zero_linger();
                return Ok(false);
            }
            _ => {}
        }
        self.output.clear();
        let field = retry_after.as_deref().map(|text| ("Retry-After", text));
        frame(
            &mut self.output,
            &answer,
            field.as_slice(),
            !head.keep_alive,
            with_body,
        );
        if cut.is_some() {
            let kept = self.output.len() - answer.len().div_ceil(2).min(self.output.len());
            self.stream.write_all(&self.output[..kept]).await?;
            guard.end(&self.resource, End::Cut);
            return Ok(false);
        }
        self.stream.write_all(&self.output).await?;
        // No await between the last byte and this: the client cannot be ahead of the count.
        guard.end(&self.resource, End::Written(answer.status));
        Ok(head.keep_alive)
    }

    /// The next head; `None` when the client closed between requests.
    async fn read_head(&mut self) -> Result<Option<Head>, Broken> {
        loop {
            if !self.input.is_empty()
                && let Some(head) = http::read_head(&self.input)?
            {
                return Ok(Some(head));
            }
            if !self.read_more().await? {
                return if self.input.is_empty() {
                    Ok(None)
                } else {
                    Err(Broken::Malformed(400))
                };
            }
        }
    }

    /// Reads the whole body; gives the length of the request in the buffer.
    async fn read_body(&mut self, head: &Head) -> Result<usize, Broken> {
        if head.expects_continue && self.input.len() == head.len {
            self.stream
                .write_all(b"HTTP/1.1 100 Continue\r\n\r\n")
                .await?;
        }
        loop {
            match head.body {
                Framing::Length(length) if self.input.len() >= head.len + length => {
                    return Ok(head.len + length);
                }
                Framing::Length(_) => {}
                Framing::Chunked => {
                    let wire = &self.input[head.len..];
                    if let Some(len) = http::read_chunked(wire, &mut self.chunked)? {
                        return Ok(head.len + len);
                    }
                    if self.input.len() > MAX_BUFFER {
                        return Err(Broken::Malformed(413));
                    }
                }
            }
            if !self.read_more().await? {
                return Err(Broken::Io);
            }
        }
    }

    /// Reads what there is; `false` at the end of the stream.
    async fn read_more(&mut self) -> Result<bool, Broken> {
        self.input.reserve(4096);
        Ok(self.stream.read_buf(&mut self.input).await? > 0)
    }

    /// Waits, and gives up when the client goes away meanwhile: a killed client does not stay in flight.
    async fn spend(&mut self, latency: Duration) -> Result<(), Broken> {
        if latency.is_zero() {
            return Ok(());
        }
        let until = tokio::time::Instant::now() + latency;
        while self.input.len() < MAX_HEAD {
            match tokio::time::timeout_at(until, self.read_more()).await {
                Err(_) => return Ok(()),
                Ok(Ok(true)) => {}
                Ok(Ok(false) | Err(_)) => return Err(Broken::Io),
            }
        }
        tokio::time::sleep_until(until).await;
        Ok(())
    }

    /// Waits until the client goes away.
    async fn hang(&mut self) -> Result<bool, Broken> {
        while self.read_more().await? {
            self.input.clear();
        }
        Err(Broken::Io)
    }

    /// The answer, and the fault that is still to be done to it on the wire.
    fn answer(
        &self,
        request: &Request<'_>,
        robots: bool,
        fault: Option<FaultKind>,
    ) -> (Answer, Option<FaultKind>) {
        match fault {
            Some(FaultKind::Status(status)) => {
                let text = format!("status {status}\n");
                return (Answer::new(status, "text/plain", text), None);
            }
            Some(FaultKind::Replace { content_type, body }) => {
                return (Answer::new(200, content_type, body), None);
            }
            _ => {}
        }
        let answer = match request.method {
            "GET" | "HEAD" if robots => self
                .content
                .robots()
                .map_or_else(Answer::not_found, |rules| {
                    Answer::new(200, "text/plain", rules)
                }),
            "GET" | "HEAD" | "POST" if !robots => self.content.answer(request),
            _ => Answer::new(405, "text/plain", "GET, HEAD and POST only\n"),
        };
        (answer, fault)
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.shared.write(|book, _| book.disconnect(self.site));
    }
}

/// Puts an answer on the wire as one piece.
fn frame(
    output: &mut Vec<u8>,
    answer: &Answer,
    field: &[(&str, &str)],
    close: bool,
    with_body: bool,
) {
    let own = answer
        .headers
        .iter()
        .map(|(name, value)| (*name, value.as_str()));
    let fields = own.chain(field.iter().copied());
    let len = answer.len();
    http::write_head(
        output,
        answer.status,
        &answer.content_type,
        len,
        fields,
        close,
    );
    if with_body {
        output.extend_from_slice(&answer.body);
        output.extend_from_slice(&answer.rest);
    }
}

fn refused(refusal: &Refusal) -> Answer {
    Answer::new(
        refusal.status,
        refusal.content_type.clone(),
        refusal.body.clone(),
    )
}

/// The value of `Retry-After`.
fn tell_wait(refusal: &Refusal, wait: Duration) -> Option<String> {
    let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
    match &refusal.retry_after {
        RetryAfter::Absent => None,
        RetryAfter::Seconds => Some(seconds.max(1).to_string()),
        // A date has whole seconds and its fraction is cut off: one more keeps it from being early.
        RetryAfter::Date => {
            let at = SystemTime::now() + Duration::from_secs(seconds + 1);
            Some(httpdate::fmt_http_date(at))
        }
        RetryAfter::Text(text) => Some(text.clone()),
    }
}

/// Fields of a head are visible ASCII almost always; what is not is empty here.
fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap_or_default()
}
