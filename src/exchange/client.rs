//! The client of one PlatformActor: an exchange is one request, one answer, under one permit.

mod error;
mod pools;
mod received;
mod request;

use std::cell::{Cell, RefCell};
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use awc::error::{ConnectError, SendRequestError};
use awc::http::header::HeaderValue;
use tokio::time::Instant;

use self::pools::{AllPools, Parts, Pools};
use self::received::Opened;
use super::body::{self, Bounds, Clock};
use super::content::Content;
use super::cookies::Session;
use super::decode::Growth;
use super::dial;
use super::egress::Egress;
use super::error::{Fault, FetchError};
use super::head::{Framing, Head};
use super::network::Network;
use super::notes::{Notes, Slot};
use super::pace::Pace;
use super::permit::ExchangePermit;
use super::phase;
use super::redirect;
use crate::governor::Hints;
use crate::governor::hints::hints;
use crate::model::{Answer, Headers, Method, Outcome, Request, UnixMillis};
use crate::settings::ExchangeSettings;

pub use self::error::ClientError;
pub(super) use self::received::{JUDGED_BODY, Received};

/// What became of an exchange.
#[derive(Debug)]
pub struct Exchanged<R> {
    /// The answer, or why there is none.
    pub result: Result<Answer, FetchError>,
    /// The proof that the permit was given back.
    pub receipt: R,
    /// Whether bytes followed the answer beyond its own end: its length may be wrong. They were thrown away, and the
    /// connection with them.
    pub surplus: bool,
}

/// Makes exchanges. It lives on one thread and keeps connections alive between exchanges.
///
/// The client limits nothing: every exchange needs a permit, and the permits are what is limited.
pub struct Client {
    agent: HeaderValue,
    parts: Parts,
    pools: RefCell<AllPools>,
    busy: Cell<usize>,
    session: Option<Arc<Session>>,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("open", &self.parts.open.get())
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
        Self::within(&Network::direct(settings), settings, user_agent)
    }

    /// As [`new`](Self::new), for a client that shares the names and the egresses of `network` with others.
    ///
    /// # Errors
    /// When `ca_file` cannot be read or `user_agent` cannot be sent.
    pub fn within(
        network: &Network,
        settings: &ExchangeSettings,
        user_agent: &str,
    ) -> Result<Self, ClientError> {
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
        let unverified = match network.unverified().is_empty() {
            true => None,
            false => Some(dial::unverified().map_err(ClientError::Tls)?),
        };
        Ok(Self {
            parts: Parts {
                settings: settings.clone(),
                slot: Slot::default(),
                tls,
                unverified,
                open: Rc::default(),
                network: network.clone(),
            },
            pools: RefCell::default(),
            agent,
            busy: Cell::new(0),
            session: None,
        })
    }

    /// The client as one that asks in the name of `session`: it sends its cookies and takes in those that are set.
    #[must_use]
    pub fn with_session(mut self, session: Arc<Session>) -> Self {
        self.session = Some(session);
        self
    }

    /// Connections that are open, idle ones included.
    #[must_use]
    pub fn open_connections(&self) -> usize {
        self.parts.open.get()
    }

    /// Closes idle connections; those in use end with their exchange.
    pub fn close_idle(&self) {
        self.pools.borrow_mut().clear();
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
            let end = self.end_of(&permit);
            let way = Way::of(&permit, fresh);
            self.fetch(end, request, way, &notes).await
        };
        self.conclude(permit, request, &notes, received, judge)
            .await
    }

    /// Judges what was received, gives the permit back, and decodes the rest.
    pub(super) async fn conclude<P: ExchangePermit>(
        &self,
        permit: P,
        request: &Request,
        notes: &Notes,
        received: Result<Received, Fault>,
        judge: impl FnOnce(&Answer) -> Option<(Outcome, Hints)>,
    ) -> Exchanged<P::Receipt> {
        let opened = received.map(|received| received.open(&request.url));
        let refusal = match &opened {
            Ok(Opened::Small(answer)) => judge(answer),
            Ok(Opened::Large(answer, _)) => refusal_of_status(answer.status, &answer.headers),
            Ok(Opened::Failed(..)) | Err(_) => None,
        };
        if let Some((outcome, said)) = refusal {
            permit.refused(outcome, said);
        }
        let receipt = permit.release(notes.dialled.get() || notes.sent.get().is_some());
        let result = match opened {
            Ok(opened) => opened.finish().await,
            Err(fault) => Err((fault, None)),
        };
        Exchanged {
            result: result.map_err(|(fault, partial)| FetchError {
                host: request::host_of(&request.url),
                method: request.method,
                fault,
                partial,
            }),
            receipt,
            surplus: notes.surplus.get(),
        }
    }

    /// Sends the request and reads the answer. When this returns, nothing of the exchange is left but, perhaps,
    /// an idle connection.
    async fn fetch(
        &self,
        end: Instant,
        request: &Request,
        way: Way<'_>,
        notes: &Rc<Notes>,
    ) -> Result<Received, Fault> {
        let builder = self.builder(request, way)?;
        let mut begun = self.begin(end, request, builder, notes).await?;
        let bounds = Bounds {
            max: redirect::most_body(&begun.head, self.parts.settings.max_body_bytes),
            idle: self.parts.settings.idle_timeout,
        };
        let (expected, broken) = (begun.expected, broken(notes, begun.expected));
        let mut body = Content::behind(&begun.head, Growth::of(&self.parts.settings))?;
        let read = body::read(
            begun.response,
            expected,
            bounds,
            &mut begun.clock,
            broken,
            &mut body,
        );
        let (body, cut) = match read.await {
            // Nobody reads the body of a redirect: cut short or endless, it is followed all the same.
            Err(_) if redirect::leads_on(&begun.head) => (Content::none(), None),
            read => (body, read.err()),
        };
        Ok(Received {
            head: begun.head,
            body,
            cut,
            head_time: begun.head_time,
            total_time: begun.sent.elapsed(),
        })
    }

    pub(super) fn settings(&self) -> &ExchangeSettings {
        &self.parts.settings
    }

    /// Exchanges that are running.
    pub(super) fn busy(&self) -> &Cell<usize> {
        &self.busy
    }

    /// When an exchange that begins now must be over.
    pub(super) fn end_of(&self, permit: &impl ExchangePermit) -> Instant {
        let longest = permit.total_timeout();
        let longest = longest.unwrap_or(self.parts.settings.total_timeout);
        permit.deadline().min(Instant::now() + longest)
    }

    /// Sends the request and reads the head of the answer.
    pub(super) async fn begin(
        &self,
        end: Instant,
        request: &Request,
        builder: awc::ClientRequest,
        notes: &Rc<Notes>,
    ) -> Result<Begun, Fault> {
        if end <= Instant::now() {
            return Err(Fault::TotalTimeout);
        }
        let mut sending = pin!(
            if request.body.is_empty() && request.method == Method::Get {
                builder.send_body(awc::body::None::new())
            } else {
                builder.send_body(request.body.clone())
            }
        );
        let mut clock = Clock::new(end);
        let response = poll_fn(|cx| {
            if let Poll::Ready(sent) = self.parts.slot.during(notes, || sending.as_mut().poll(cx)) {
                return Poll::Ready(sent.map_err(|error| send_fault(notes, error)));
            }
            let (sent, first_byte) = (notes.sent.get(), notes.first_byte.get());
            let (due, fault) = phase::of_head(&self.parts.settings, sent, first_byte);
            clock.poll(due, fault, cx).map(Err)
        })
        .await?;
        let (Some((head, head_at)), Some(sent)) = (notes.head.take(), notes.sent.get()) else {
            return Err(Fault::Protocol("an answer without a request".to_owned()));
        };
        if let Some(session) = &self.session {
            session.heard(&request.url, &head.headers);
        }
        let expected = match head.framing {
            Framing::Length(length) => Some(length),
            Framing::None => Some(0),
            Framing::Chunked | Framing::UntilClose => None,
        };
        clock.watch(Pace::new(&self.parts.settings, head_at), notes);
        Ok(Begun {
            head,
            head_time: head_at - sent,
            sent,
            expected,
            response,
            clock,
        })
    }

    pub(super) fn builder(
        &self,
        request: &Request,
        way: Way<'_>,
    ) -> Result<awc::ClientRequest, Fault> {
        if self.parts.open.get().saturating_sub(self.busy.get()) > pools::MAX_IDLE {
            self.close_idle();
        }
        let pools = match way.fresh {
            // The request keeps of them what it needs; nothing stays to be used again.
            true => Pools::new(&self.parts, way.egress),
            false => self.pools.borrow_mut().of(&self.parts, way.egress),
        };
        let mut builder = request::build(pools.of(&request.url), &self.agent, request)?;
        if let Some(session) = &self.session {
            session.put_into(&request.url, builder.headers_mut());
        }
        Ok(builder)
    }
}

/// What an exchange goes over.
#[derive(Clone, Copy)]
pub(super) struct Way<'a> {
    egress: Option<&'a Arc<Egress>>,
    /// On a new connection, which is not kept.
    fresh: bool,
}

impl<'a> Way<'a> {
    pub(super) fn of(permit: &'a impl ExchangePermit, fresh: bool) -> Self {
        Self {
            egress: permit.egress(),
            fresh,
        }
    }
}

/// An answer of which the head has come.
pub(super) struct Begun {
    pub(super) head: Head,
    pub(super) head_time: Duration,
    /// When the request left.
    pub(super) sent: Instant,
    /// The length of the body, where it was announced.
    pub(super) expected: Option<u64>,
    pub(super) response: awc::ClientResponse,
    pub(super) clock: Clock,
}

/// What broke a body off: the connection's own word, else a cut.
pub(super) fn broken<E>(notes: &Notes, expected: Option<u64>) -> impl Fn(E) -> Fault {
    move |_| {
        let fault = notes.fault.take();
        fault.unwrap_or(Fault::Truncated {
            received: 0,
            expected,
        })
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

/// Counts an exchange while it runs.
pub(super) struct Busy<'a>(&'a Cell<usize>);

impl<'a> Busy<'a> {
    pub(super) fn new(count: &'a Cell<usize>) -> Self {
        count.set(count.get() + 1);
        Self(count)
    }
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

/// What went wrong before the head: the connection's own word first, then awc's.
fn send_fault(notes: &Notes, error: SendRequestError) -> Fault {
    if let Some(fault) = notes.fault.take() {
        return fault;
    }
    if let Some(egress) = notes.tunnelling.take() {
        return Fault::Proxy {
            egress,
            why: "no tunnel within connect_timeout".to_owned(),
        };
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
