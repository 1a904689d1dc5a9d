//! The client of one PlatformActor: an exchange is one request, one answer, under one permit.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::future::{Future, poll_fn};
use std::path::PathBuf;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use awc::error::{ConnectError, SendRequestError};
use awc::http::header::{self, HeaderName, HeaderValue};
use awc::http::{Method as HttpMethod, Uri};
use bytes::Bytes;
use thiserror::Error;
use tokio::time::Instant;
use url::{Position, Url};

use super::body::{self, Bounds, Clock};
use super::decode::{self, STEP, Step};
use super::dial::{self, Dial};
use super::error::{Fault, FetchError};
use super::head::{Framing, Head};
use super::notes::{Notes, Slot};
use crate::governor::Hints;
use crate::governor::hints::hints;
use crate::model::{Answer, Headers, Method, Outcome, Request, UnixMillis};
use crate::settings::ExchangeSettings;

/// Idle connections that are kept; above it all are closed. awc itself never closes an idle connection.
const MAX_IDLE: usize = 64;

/// An idle connection older than this is not used again.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Even a busy connection is replaced after this, so that a change in DNS is followed.
const LIFETIME: Duration = Duration::from_secs(600);

/// A body up to this size, as received, is judged before its permit is given back: refusals are small, and to look
/// through so little costs microseconds. A larger one is judged by its status until it has been decoded.
const JUDGED_BODY: usize = 32 * 1024;

/// Decoding yields to other tasks of the arbiter after this many steps (1 MiB).
const STEPS_AT_ONCE: usize = 1024 * 1024 / STEP;

/// Headers of a request that the exchange alone decides.
const OWN_HEADERS: [HeaderName; 7] = [
    header::HOST,
    header::CONNECTION,
    header::CONTENT_LENGTH,
    header::TRANSFER_ENCODING,
    header::ACCEPT_ENCODING,
    header::UPGRADE,
    header::EXPECT,
];

/// The right to make one exchange, used up by it.
pub trait ExchangePermit {
    /// What the permit turns into when it is given back.
    type Receipt;

    /// The exchange is over, whatever has come, at this instant.
    fn deadline(&self) -> Instant;

    /// The head of an answer, before the permit is given back, refuses us: nothing that waits for the freed slot
    /// may leave before this is known.
    fn refused(&self, outcome: Outcome, hints: Hints) {
        let _ = (outcome, hints);
    }

    /// Gives the permit back. `used` tells whether a connection was begun or a request sent under it.
    fn release(self, used: bool) -> Self::Receipt;
}

/// What became of an exchange.
#[derive(Debug)]
pub struct Exchanged<R> {
    /// The answer, or why there is none.
    pub result: Result<Answer, FetchError>,
    /// The proof that the permit was given back.
    pub receipt: R,
}

/// Why a client cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ClientError {
    /// `exchange.ca_file` cannot be read or used.
    #[error("exchange.ca_file {}: {why}", path.display())]
    CaFile {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// `user_agent` cannot be sent.
    #[error("user_agent: {0:?} cannot be sent as a header; allowed: visible ASCII and spaces")]
    UserAgent(String),
    /// The TLS library refuses its own defaults.
    #[error("TLS: {0}")]
    Tls(String),
}

/// Makes exchanges. It lives on one thread and keeps connections alive between exchanges.
///
/// The client limits nothing: every exchange needs a permit, and the permits are what is limited.
pub struct Client {
    settings: ExchangeSettings,
    agent: HeaderValue,
    slot: Slot,
    tls: tokio_rustls::TlsConnector,
    pools: RefCell<Pools>,
    open: Rc<Cell<usize>>,
    busy: Cell<usize>,
}

/// Plain and TLS apart: awc's pool tells connections by authority only.
#[derive(Clone)]
struct Pools {
    plain: awc::Client,
    tls: awc::Client,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("open", &self.open.get())
            .field("busy", &self.busy.get())
            .finish_non_exhaustive()
    }
}

impl Client {
    /// A client with the clocks and bounds of `settings`, which names itself `user_agent`.
    ///
    /// # Errors
    /// When `ca_file` cannot be read or `user_agent` cannot be sent.
    pub fn new(settings: &ExchangeSettings, user_agent: &str) -> Result<Self, ClientError> {
        let agent = HeaderValue::from_str(user_agent)
            .ok()
            .filter(|value| value.to_str().is_ok_and(|text| !text.trim().is_empty()))
            .ok_or_else(|| ClientError::UserAgent(user_agent.to_owned()))?;
        let tls = match &settings.ca_file {
            None => dial::tls(Vec::new()).map_err(ClientError::Tls)?,
            Some(path) => dial::read_ca_file(path)
                .and_then(dial::tls)
                .map_err(|why| ClientError::CaFile {
                    path: path.clone(),
                    why,
                })?,
        };
        let (slot, open) = (Slot::default(), Rc::default());
        Ok(Self {
            pools: RefCell::new(Pools::new(settings, &slot, &tls, &open)),
            settings: settings.clone(),
            agent,
            slot,
            tls,
            open,
            busy: Cell::new(0),
        })
    }

    /// Connections that are open, idle ones included.
    #[must_use]
    pub fn open_connections(&self) -> usize {
        self.open.get()
    }

    /// Closes idle connections; those in use end with their exchange.
    pub fn close_idle(&self) {
        let pools = Pools::new(&self.settings, &self.slot, &self.tls, &self.open);
        self.pools.replace(pools);
    }

    /// Makes one exchange, judged by its status alone. The permit is given back the moment the body has been read or
    /// the exchange has failed, before anything is decoded. Dropping the future closes the connection.
    pub async fn exchange<P: ExchangePermit>(
        &self,
        permit: P,
        request: &Request,
    ) -> Exchanged<P::Receipt> {
        self.exchange_judged(permit, request, false, |answer| {
            refusal_of_status(answer.status, &answer.headers)
        })
        .await
    }

    /// As [`exchange`](Self::exchange), but an answer with a small body is shown to `judge` while the permit is held.
    /// What it says is a refusal is told before the slot is free, so that nobody slips out in between.
    ///
    /// `fresh`: on a new connection, which is not kept; for what a kept one has failed.
    pub async fn exchange_judged<P: ExchangePermit>(
        &self,
        permit: P,
        request: &Request,
        fresh: bool,
        judge: impl FnOnce(&Answer) -> Option<(Outcome, Hints)>,
    ) -> Exchanged<P::Receipt> {
        let notes = Rc::new(Notes::default());
        let received = {
            let _busy = Busy::new(&self.busy);
            self.fetch(permit.deadline(), request, fresh, &notes).await
        };
        let opened = received.and_then(|received| self.open(received, &request.url));
        let refusal = match &opened {
            Ok(Opened::Small(answer)) => judge(answer),
            Ok(Opened::Large(answer, _)) => refusal_of_status(answer.status, &answer.headers),
            Err(_) => None,
        };
        if let Some((outcome, said)) = refusal {
            permit.refused(outcome, said);
        }
        let receipt = permit.release(notes.dialled.get() || notes.sent.get().is_some());
        let result = match opened {
            Ok(Opened::Small(answer)) => Ok(answer),
            Ok(Opened::Large(answer, step)) => decode_rest(step)
                .await
                .map(|body| Answer { body, ..answer }),
            Err(fault) => Err(fault),
        };
        Exchanged {
            result: result.map_err(|fault| FetchError {
                host: host_of(&request.url),
                method: request.method,
                fault,
            }),
            receipt,
        }
    }

    /// Sends the request and reads the answer. When this returns, nothing of the exchange is left but, perhaps,
    /// an idle connection.
    async fn fetch(
        &self,
        deadline: Instant,
        request: &Request,
        fresh: bool,
        notes: &Rc<Notes>,
    ) -> Result<Received, Fault> {
        let start = Instant::now();
        let end = deadline.min(start + self.settings.total_timeout);
        if end <= start {
            return Err(Fault::TotalTimeout);
        }
        let builder = self.build(request, fresh)?;
        let mut sending = pin!(
            if request.body.is_empty() && request.method == Method::Get {
                builder.send_body(awc::body::None::new())
            } else {
                builder.send_body(request.body.clone())
            }
        );
        let mut clock = Clock::new(end);
        let response = poll_fn(|cx| {
            if let Poll::Ready(sent) = self.slot.during(notes, || sending.as_mut().poll(cx)) {
                return Poll::Ready(sent.map_err(|error| send_fault(notes, error)));
            }
            // Until the request is on its way awc's connect clock runs.
            let head_end = notes
                .sent
                .get()
                .map(|sent| sent + self.settings.head_timeout);
            clock.poll(head_end, Fault::HeadTimeout, cx).map(Err)
        })
        .await?;
        let (Some((head, head_at)), Some(sent)) = (notes.head.take(), notes.sent.get()) else {
            return Err(Fault::Protocol("an answer without a request".to_owned()));
        };
        let expected = match head.framing {
            Framing::Length(length) => Some(length),
            Framing::None => Some(0),
            Framing::Chunked | Framing::UntilClose => None,
        };
        let bounds = Bounds {
            max: self.settings.max_body_bytes,
            idle: self.settings.idle_timeout,
        };
        let broken = |_| {
            let fault = notes.fault.take();
            fault.unwrap_or(Fault::Truncated {
                received: 0,
                expected,
            })
        };
        let body = body::read(response, expected, bounds, &mut clock, broken).await?;
        Ok(Received {
            head,
            body,
            head_time: head_at - sent,
            total_time: sent.elapsed(),
        })
    }

    fn build(&self, request: &Request, fresh: bool) -> Result<awc::ClientRequest, Fault> {
        let uri = uri_of(&request.url)?;
        if self.open.get().saturating_sub(self.busy.get()) > MAX_IDLE {
            self.close_idle();
        }
        let method = match request.method {
            Method::Get => HttpMethod::GET,
            Method::Post => HttpMethod::POST,
        };
        let host = HeaderValue::from_str(&host_of(&request.url))
            .map_err(|_| Fault::InvalidUrl("its host cannot be sent".to_owned()))?;
        let pools = match fresh {
            // The request keeps of them what it needs; nothing stays to be used again.
            true => Pools::new(&self.settings, &self.slot, &self.tls, &self.open),
            false => self.pools.borrow().clone(),
        };
        let client = match request.url.scheme() {
            "https" => &pools.tls,
            _ => &pools.plain,
        };
        let mut builder = client.request(method, uri).no_decompress().camel_case();
        let headers = builder.headers_mut();
        headers.insert(header::HOST, host);
        headers.insert(header::USER_AGENT, self.agent.clone());
        headers.insert(header::ACCEPT, HeaderValue::from_static("*/*"));
        headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("gzip"));
        for (index, (name, value)) in request.headers.iter().enumerate() {
            let invalid = |why| Fault::InvalidHeader {
                name: name.chars().take(80).collect(),
                why,
            };
            let known = HeaderName::try_from(name.as_str())
                .map_err(|_| invalid("its name is not a header name"))?;
            if OWN_HEADERS.contains(&known) {
                return Err(invalid("the exchange sets it itself"));
            }
            let value = HeaderValue::from_bytes(value.as_bytes())
                .map_err(|_| invalid("its value has a line break or another control character"))?;
            // The first of a name replaces a default, the others are added to it.
            let seen = &request.headers[..index];
            if seen
                .iter()
                .any(|(other, _)| other.eq_ignore_ascii_case(name))
            {
                headers.append(known, value);
            } else {
                headers.insert(known, value);
            }
        }
        Ok(builder)
    }

    /// Begins to decode, and ends it too where the body is small.
    fn open(&self, received: Received, url: &Url) -> Result<Opened, Fault> {
        let small = received.body.len() <= JUDGED_BODY;
        let codings: Vec<_> = received.head.headers.all("content-encoding").collect();
        let mut step = match codings.is_empty() {
            true => Step::Done(received.body.clone()),
            false => decode::begin(
                received.body.clone(),
                &codings,
                self.settings.max_body_bytes,
            )?,
        };
        if small && let Step::More(decoding) = step {
            step = decoding.step()?;
        }
        let mut answer = received.into_answer(url.clone());
        Ok(match step {
            Step::Done(body) if small => {
                answer.body = body;
                Opened::Small(answer)
            }
            step => Opened::Large(answer, step),
        })
    }
}

/// An answer of which perhaps the body is still to be decoded.
enum Opened {
    /// It is whole, and small enough to be judged under the permit.
    Small(Answer),
    /// The rest of its body is still to come.
    Large(Answer, Step),
}

async fn decode_rest(mut step: Step) -> Result<Bytes, Fault> {
    let mut steps = 0;
    loop {
        match step {
            Step::Done(body) => return Ok(body),
            Step::More(decoding) => step = decoding.step()?,
        }
        steps += 1;
        if steps % STEPS_AT_ONCE == 0 {
            tokio::task::yield_now().await;
        }
    }
}

/// What a status alone says of a refusal.
fn refusal_of_status(status: u16, headers: &Headers) -> Option<(Outcome, Hints)> {
    if status < 400 {
        return None;
    }
    let said = hints(headers, UnixMillis::now());
    let outcome = Outcome::of_status(status, said.retry_after.is_some());
    matches!(outcome, Outcome::Limited | Outcome::Blocked).then_some((outcome, said))
}

impl Pools {
    fn new(
        settings: &ExchangeSettings,
        slot: &Slot,
        tls: &tokio_rustls::TlsConnector,
        open: &Rc<Cell<usize>>,
    ) -> Self {
        let client = |tls: Option<&tokio_rustls::TlsConnector>| {
            let max_head = settings.max_header_bytes;
            let dial = Dial {
                slot: slot.clone(),
                tls: tls.cloned(),
                max_head: usize::try_from(max_head).unwrap_or(usize::MAX),
                open: Rc::clone(open),
            };
            let connector = awc::Connector::new()
                .connector(dial)
                .limit(0)
                .timeout(settings.connect_timeout)
                .conn_keep_alive(KEEP_ALIVE)
                .conn_lifetime(LIFETIME);
            awc::Client::builder()
                .connector(connector)
                .no_default_headers()
                .disable_redirects()
                .disable_timeout()
                .finish()
        };
        Self {
            plain: client(None),
            tls: client(Some(tls)),
        }
    }
}

/// Counts an exchange while it runs.
struct Busy<'a>(&'a Cell<usize>);

impl<'a> Busy<'a> {
    fn new(count: &'a Cell<usize>) -> Self {
        count.set(count.get() + 1);
        Self(count)
    }
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

/// An answer as it was received.
struct Received {
    head: Head,
    body: Bytes,
    head_time: Duration,
    total_time: Duration,
}

impl Received {
    fn into_answer(self, url: Url) -> Answer {
        Answer {
            url,
            status: self.head.status,
            headers: self.head.headers,
            body: self.body,
            head_time: self.head_time,
            total_time: self.total_time,
        }
    }
}

/// Host, and port where it is not the scheme's own: as it is sent and as errors name it.
fn host_of(url: &Url) -> Arc<str> {
    url[Position::BeforeHost..Position::AfterPort].into()
}

/// The URI that awc is given: always `http`, TLS being the connector's; with the port of the scheme.
fn uri_of(url: &Url) -> Result<Uri, Fault> {
    let invalid = |text: &str| Fault::InvalidUrl(text.to_owned());
    if !url.username().is_empty() || url.password().is_some() {
        return Err(invalid("it holds a user name or password"));
    }
    let uri = match url.scheme() {
        "http" => Uri::try_from(&url[..Position::AfterQuery]),
        "https" => {
            let host = url.host_str().unwrap_or_default();
            let port = url.port().unwrap_or(443);
            let path = &url[Position::BeforePath..Position::AfterQuery];
            Uri::try_from(format!("http://{host}:{port}{path}"))
        }
        _ => return Err(invalid("its scheme is not http or https")),
    };
    uri.map_err(|error| invalid(&error.to_string()))
}

/// What went wrong before the head: the connection's own word first, then awc's.
fn send_fault(notes: &Notes, error: SendRequestError) -> Fault {
    if let Some(fault) = notes.fault.take() {
        return fault;
    }
    match error {
        SendRequestError::Connect(ConnectError::Timeout) | SendRequestError::Timeout => {
            Fault::ConnectTimeout
        }
        SendRequestError::Connect(ConnectError::Disconnected) | SendRequestError::Send(_) => {
            Fault::Disconnected {
                reused: notes.reused.get(),
            }
        }
        SendRequestError::Connect(error) => Fault::Connect(error.to_string()),
        SendRequestError::Url(error) => Fault::InvalidUrl(error.to_string()),
        error => Fault::Protocol(error.to_string()),
    }
}

impl ExchangePermit for crate::governor::Permit {
    type Receipt = crate::governor::Receipt;

    fn deadline(&self) -> Instant {
        Self::deadline(self)
    }

    fn refused(&self, outcome: Outcome, hints: Hints) {
        Self::refused(self, outcome, hints);
    }

    fn release(self, used: bool) -> Self::Receipt {
        Self::release(self, used)
    }
}
