//! The adapter between a connection and awc: what awc reads here is framed as awc understands it.
//!
//! Every head is parsed here, lossless, and kept in the [`Notes`]; awc is given a minimal head that says
//! nothing but the status and how the body ends. Interim heads are dropped, a body that ends at close is
//! announced as HTTP/1.0, an early end is an error, and what follows an answer is never taken for the next.

mod writing;

use std::fmt::Write;
use std::io;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use actix_rt::net::{ActixStream, Ready};
use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};
use tokio::time::Instant;

use super::chunks::Chunks;
use super::error::Fault;
use super::head::{self, Framing, HeadEnd};
use super::notes::{Notes, Slot};

/// Bytes read at once while a head or a chunked body is looked through: a usual page with its head needs one read.
const READ: usize = 16 * 1024;

/// Interim answers (1xx) that are dropped before one answer; more are an attack or a fault.
const INTERIM_HEADS: usize = 32;

#[derive(Debug)]
enum State {
    /// Between two exchanges.
    Idle,
    /// A request is on its way, its answer has not come. `blank` counts the line ends before its status line.
    Head {
        end: HeadEnd,
        interim: usize,
        blank: usize,
    },
    /// A body of known length.
    Length { left: u64, length: u64 },
    /// A chunked body.
    Chunked(Chunks),
    /// A body that ends with the connection.
    UntilClose { received: u64 },
    /// That end was reached.
    Closed,
    /// Nothing more may be read.
    Failed,
}

/// A connection as awc sees it.
#[derive(Debug)]
pub(super) struct Wire<S> {
    stream: S,
    slot: Slot,
    notes: Rc<Notes>,
    /// Notes that nobody reads, for what comes between two exchanges.
    unread: Rc<Notes>,
    state: State,
    to_head: bool,
    served: bool,
    /// The server takes no more of the request: what is still written of it is thrown away.
    deaf: bool,
    max_head: usize,
    /// Read from the stream and not yet looked at.
    input: BytesMut,
    /// Rewritten and not yet given to awc.
    output: BytesMut,
}

impl<S> Wire<S> {
    /// Wraps a fresh connection. `max_head` bounds each head and the trailers, in bytes.
    pub(super) fn new(stream: S, slot: Slot, max_head: usize) -> Self {
        Self {
            stream,
            slot,
            notes: Rc::default(),
            unread: Rc::default(),
            state: State::Idle,
            to_head: false,
            served: false,
            deaf: false,
            max_head,
            input: BytesMut::new(),
            output: BytesMut::new(),
        }
    }

    /// A request begins: its first bytes are `head`.
    fn begin(&mut self, head: &[u8]) {
        self.notes = self.slot.current();
        self.notes.reused.set(self.served);
        self.notes.sent.set(Some(Instant::now()));
        self.to_head = head.starts_with(b"HEAD ");
        self.state = State::Head {
            end: HeadEnd::default(),
            interim: 0,
            blank: 0,
        };
    }

    /// The answer is complete.
    fn finish(&mut self) {
        self.notes.surplus.set(!self.input.is_empty());
        self.served = true;
        self.state = State::Idle;
        self.notes = Rc::clone(&self.unread);
    }

    fn fail(&mut self, fault: Fault) -> io::Error {
        let error = io::Error::other(fault.to_string());
        self.notes.fault.replace(Some(fault));
        self.state = State::Failed;
        error
    }

    /// What the end of the stream, or an error of it, means in this state.
    fn ended(&mut self, error: Option<&io::Error>) -> Option<Fault> {
        let (received, expected) = match &self.state {
            State::Idle | State::Closed | State::Failed => return None,
            State::UntilClose { .. } if error.is_none() => return None,
            State::Head { interim, .. } => {
                return Some(if self.input.is_empty() && *interim == 0 {
                    Fault::Disconnected {
                        reused: self.served,
                    }
                } else {
                    Fault::Truncated {
                        received: 0,
                        expected: None,
                    }
                });
            }
            State::Length { left, length } => (length - left, Some(*length)),
            State::Chunked(chunks) => (chunks.received(), None),
            State::UntilClose { received } => (*received, None),
        };
        Some(Fault::Truncated { received, expected })
    }

    /// Looks through `input`; `false` when more is needed.
    fn step(&mut self) -> Result<bool, Fault> {
        match &mut self.state {
            State::Head {
                end,
                interim,
                blank,
            } => {
                let limit = self.max_head;
                let too_large = Fault::HeaderTooLarge {
                    limit: limit as u64,
                };
                // Empty lines before a status line are put up with (RFC 9112 §2.2), and counted as part of the head.
                let line_ends = self.input.iter().take_while(|b| matches!(b, b'\r' | b'\n'));
                let skip = if end.is_new() { line_ends.count() } else { 0 };
                self.input.advance(skip);
                *blank += skip;
                // Before its end is looked for, so that it is the same fault however the bytes come.
                if !head::may_begin(&self.input) {
                    let text = "it does not begin with `HTTP/1.`";
                    return Err(Fault::Protocol(text.to_owned()));
                }
                let Some(length) = end.find(&self.input) else {
                    return if self.input.len() + *blank > limit {
                        Err(too_large)
                    } else {
                        Ok(false)
                    };
                };
                if length + *blank > limit {
                    return Err(too_large);
                }
                let head = head::parse(&self.input[..length], self.to_head)?;
                self.input.advance(length);
                match head.status {
                    101 => {
                        let text = "the protocol was switched without being asked";
                        return Err(Fault::Protocol(text.to_owned()));
                    }
                    100..=199 => {
                        *interim += 1;
                        *end = HeadEnd::default();
                        *blank = 0;
                        if *interim > INTERIM_HEADS {
                            let text = "too many interim answers";
                            return Err(Fault::Protocol(text.to_owned()));
                        }
                        return Ok(true);
                    }
                    _ => self.announce(head),
                }
                Ok(true)
            }
            State::Chunked(chunks) => {
                let (before, received) = (self.output.len(), chunks.received());
                let ended = chunks.feed(&mut self.input, &mut self.output)?;
                self.notes.count_body(chunks.received() - received);
                if ended {
                    self.finish();
                }
                Ok(ended || self.output.len() > before)
            }
            _ => Ok(true),
        }
    }

    /// Hands the head to the exchange, and to awc what it needs of it.
    fn announce(&mut self, head: head::Head) {
        let framing = head.framing;
        let minor = u8::from(framing != Framing::UntilClose);
        let status = head.status;
        let close = if head.persistent && !self.deaf {
            ""
        } else {
            "connection: close\r\n"
        };
        // Written into a buffer: it cannot fail.
        let _ = write!(self.output, "HTTP/1.{minor} {status}\r\n");
        let _ = match framing {
            Framing::Length(length) => write!(self.output, "content-length: {length}\r\n"),
            Framing::Chunked => self.output.write_str("transfer-encoding: chunked\r\n"),
            Framing::None | Framing::UntilClose => Ok(()),
        };
        let _ = write!(self.output, "{close}\r\n");
        self.notes.head.replace(Some((head, Instant::now())));
        match framing {
            Framing::None | Framing::Length(0) => self.finish(),
            Framing::Length(length) => {
                self.state = State::Length {
                    left: length,
                    length,
                };
            }
            Framing::Chunked => self.state = State::Chunked(Chunks::new(self.max_head as u64)),
            Framing::UntilClose => self.state = State::UntilClose { received: 0 },
        }
    }
}

/// Moves bytes from `from` to `to`, at most `limit`; gives their number.
fn put(from: &mut BytesMut, to: &mut ReadBuf<'_>, limit: u64) -> usize {
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let count = from.len().min(to.remaining()).min(limit);
    to.put_slice(&from[..count]);
    from.advance(count);
    count
}

impl<S: AsyncRead + Unpin> Wire<S> {
    /// Body bytes straight from the stream into awc's buffer, at most `limit`.
    fn read_through(
        &mut self,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
        limit: u64,
    ) -> Poll<io::Result<usize>> {
        if !self.input.is_empty() {
            return Poll::Ready(Ok(put(&mut self.input, buf, limit)));
        }
        let room = usize::try_from(limit).unwrap_or(usize::MAX);
        if room >= buf.remaining() {
            let before = buf.filled().len();
            ready!(Pin::new(&mut self.stream).poll_read(cx, buf))?;
            return Poll::Ready(Ok(buf.filled().len() - before));
        }
        let mut part = ReadBuf::new(buf.initialize_unfilled_to(room.min(buf.remaining())));
        ready!(Pin::new(&mut self.stream).poll_read(cx, &mut part))?;
        let count = part.filled().len();
        buf.advance(count);
        Poll::Ready(Ok(count))
    }

    /// A body that came with its head goes on with it: one call of awc's less.
    fn put_with_head(&mut self, buf: &mut ReadBuf<'_>) -> usize {
        match &self.state {
            State::Length { left, .. } if !self.input.is_empty() && self.output.is_empty() => {
                let count = put(&mut self.input, buf, *left);
                self.body_came(count as u64);
                count
            }
            _ => 0,
        }
    }

    /// Bytes of a body that is not chunked were handed on.
    fn body_came(&mut self, count: u64) {
        self.notes.count_body(count);
        match &mut self.state {
            State::Length { left, .. } if count > 0 => {
                *left -= count;
                if *left == 0 {
                    self.finish();
                }
            }
            State::UntilClose { received } => *received += count,
            _ => {}
        }
    }

    fn read_input(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        self.input.reserve(READ);
        let count = ready!(pin!(self.stream.read_buf(&mut self.input)).poll(cx))?;
        if count > 0 && self.notes.first_byte.get().is_none() {
            self.notes.first_byte.set(Some(Instant::now()));
        }
        Poll::Ready(Ok(count))
    }

    /// One piece for awc; zero bytes are the end.
    fn poll_piece(
        &mut self,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<usize>> {
        loop {
            if !self.output.is_empty() {
                let given = put(&mut self.output, buf, u64::MAX);
                return Poll::Ready(Ok(given + self.put_with_head(buf)));
            }
            let limit = match &self.state {
                // What comes unasked makes awc's pool drop the connection.
                State::Idle | State::UntilClose { .. } => u64::MAX,
                State::Length { left, .. } => *left,
                State::Closed => return Poll::Ready(Ok(0)),
                State::Failed => return Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
                State::Head { .. } | State::Chunked(_) => {
                    let moved = self.step();
                    if !moved.map_err(|fault| self.fail(fault))?
                        && ready!(self.read_input(cx))? == 0
                    {
                        return Poll::Ready(Ok(0));
                    }
                    continue;
                }
            };
            let count = ready!(self.read_through(cx, buf, limit))?;
            self.body_came(count as u64);
            return Poll::Ready(Ok(count));
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Wire<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if buf.remaining() == 0 {
            return Poll::Ready(Ok(()));
        }
        let read = ready!(this.poll_piece(cx, buf));
        match &read {
            Ok(0) => {
                if let Some(fault) = this.ended(None) {
                    return Poll::Ready(Err(this.fail(fault)));
                }
                if matches!(this.state, State::UntilClose { .. }) {
                    this.state = State::Closed;
                }
            }
            Err(error) => {
                // A fault of the framing says more than the end it brought.
                if this.notes.fault.borrow().is_none()
                    && let Some(fault) = this.ended(Some(error))
                {
                    return Poll::Ready(Err(this.fail(fault)));
                }
            }
            Ok(_) => {}
        }
        Poll::Ready(read.map(|_| ()))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> ActixStream for Wire<S> {
    // awc's bound asks for these two; its HTTP/1 client polls reads and writes only.
    fn poll_read_ready(&self, _: &mut Context<'_>) -> Poll<io::Result<Ready>> {
        Poll::Ready(Ok(Ready::READABLE))
    }

    fn poll_write_ready(&self, _: &mut Context<'_>) -> Poll<io::Result<Ready>> {
        Poll::Ready(Ok(Ready::WRITABLE))
    }
}

#[cfg(test)]
mod fuzz;
#[cfg(test)]
mod tests;
