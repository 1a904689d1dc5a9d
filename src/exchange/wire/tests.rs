//! The wire against a stream that gives its bytes in any pieces.

use std::collections::VecDeque;

use proptest::prelude::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;

/// Gives the script's pieces one by one, with a pending poll before each, then ends.
#[derive(Debug, Default)]
struct Script {
    pieces: VecDeque<Vec<u8>>,
    waited: bool,
    end: Option<io::ErrorKind>,
}

impl AsyncRead for Script {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        this.waited = !this.waited;
        if this.waited {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let Some(piece) = this.pieces.front_mut() else {
            return Poll::Ready(this.end.map_or(Ok(()), |kind| Err(kind.into())));
        };
        let count = piece.len().min(buf.remaining());
        buf.put_slice(&piece[..count]);
        piece.drain(..count);
        if piece.is_empty() {
            this.pieces.pop_front();
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Script {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Poll::Ready(Ok(buf.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// What one exchange gave: the status, the body, and the fault that ended it.
#[derive(Debug, PartialEq)]
pub(super) struct Seen {
    pub(super) status: Option<u16>,
    pub(super) body: Vec<u8>,
    pub(super) fault: Option<Fault>,
    /// Whether the connection waits for another request.
    pub(super) idle: bool,
}

/// Runs one exchange with method `method` over `raw` in pieces; `room` is the size of the reader's buffer.
pub(super) async fn run(
    method: &str,
    raw: &[u8],
    cuts: &[usize],
    room: usize,
    end: Option<io::ErrorKind>,
) -> Seen {
    let mut stream = Script {
        end,
        ..Script::default()
    };
    let mut rest = raw;
    for cut in cuts.iter().cycle() {
        if rest.is_empty() {
            break;
        }
        let (piece, more) = rest.split_at((*cut).min(rest.len()));
        stream.pieces.push_back(piece.to_vec());
        rest = more;
    }
    let slot = Slot::default();
    let notes = Rc::new(Notes::default());
    let mut wire = Wire::new(stream, slot.clone(), 200);
    // The slot is set while the request is written, as the exchange does it.
    let mut writing = pin!(wire.write_all(method.as_bytes()));
    std::future::poll_fn(|cx| slot.during(&notes, || writing.as_mut().poll(cx)))
        .await
        .unwrap();
    let mut given = Vec::new();
    let mut buffer = vec![0; room];
    while !matches!(wire.state, State::Idle) || !wire.output.is_empty() {
        match wire.read(&mut buffer).await {
            Ok(0) | Err(_) => break,
            Ok(count) => given.extend_from_slice(&buffer[..count]),
        }
    }
    let idle = matches!(wire.state, State::Idle);
    let head_end = HeadEnd::default().find(&given).unwrap_or(given.len());
    let (head, body) = given.split_at(head_end);
    let chunked = head.windows(7).any(|window| window == b"chunked");
    let status = notes.head.take().map(|(head, _)| head.status);
    Seen {
        status,
        body: if chunked {
            unchunk(body)
        } else {
            body.to_vec()
        },
        fault: notes.fault.take(),
        idle,
    }
}

/// The payload of a body in plain chunks, as far as whole chunks go.
fn unchunk(mut body: &[u8]) -> Vec<u8> {
    let mut data = Vec::new();
    while let Some(end) = body.windows(2).position(|window| window == b"\r\n") {
        let size = usize::from_str_radix(std::str::from_utf8(&body[..end]).unwrap(), 16).unwrap();
        if size == 0 {
            break;
        }
        data.extend_from_slice(&body[end + 2..end + 2 + size]);
        body = &body[end + 2 + size + 2..];
    }
    data
}

fn seen(status: u16, body: &[u8], fault: Option<Fault>, idle: bool) -> Seen {
    Seen {
        status: Some(status),
        body: body.to_vec(),
        fault,
        idle,
    }
}

#[tokio::test]
async fn an_answer_to_head_has_no_body_and_keeps_the_connection() {
    let raw = b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n";
    let head = run("HEAD / HTTP/1.1\r\n\r\n", raw, &[9], 64, None).await;
    assert_eq!(head, seen(200, b"", None, true));
    let get = run("GET / HTTP/1.1\r\n\r\n", raw, &[9], 64, None).await;
    let fault = Fault::Truncated {
        received: 0,
        expected: Some(500),
    };
    assert_eq!(get, seen(200, b"", Some(fault), false));
}

/// An answer, and what has to be seen of it when it is cut after `cut` of its bytes.
fn answers() -> impl Strategy<Value = (Vec<u8>, Vec<u8>, usize, bool)> {
    let body = prop::collection::vec(any::<u8>(), 0..300);
    let interim = prop::collection::vec(
        prop::sample::select(vec![
            "HTTP/1.1 100 Continue\r\n\r\n",
            "HTTP/1.1 103 E\nLink: x\n\n",
        ]),
        0..3,
    );
    (body, interim, 0usize..3, 1usize..50).prop_map(|(body, interim, framing, chunk)| {
        let mut raw = interim.concat().into_bytes();
        raw.extend(b"HTTP/1.1 200 OK\r\nX: y\r\n");
        match framing {
            0 => raw.extend(format!("Content-Length: {}\r\n\r\n", body.len()).bytes()),
            1 => raw.extend(b"\r\n"),
            _ => raw.extend(b"Transfer-Encoding: chunked\r\n\r\n"),
        }
        let head = raw.len();
        if framing == 2 {
            for part in body.chunks(chunk) {
                raw.extend(format!("{:x};e=1\r\n", part.len()).bytes());
                raw.extend(part);
                raw.extend(b"\r\n");
            }
            raw.extend(b"0\r\nT: 1\r\n\r\n");
        } else {
            raw.extend(&body);
        }
        (raw, body, head, framing == 1)
    })
}

pub(super) fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    runtime.unwrap().block_on(future)
}

proptest! {
    #[test]
    fn splits_do_not_matter(
        (raw, body, _, until_close) in answers(),
        cuts in prop::collection::vec(1usize..200, 1..20),
        room in 1usize..300,
    ) {
        let seen_now = block_on(run("GET / HTTP/1.1\r\n\r\n", &raw, &cuts, room, None));
        prop_assert_eq!(seen_now, seen(200, &body, None, !until_close));
    }

    #[test]
    fn every_early_end_is_a_fault(
        (raw, _, head, until_close) in answers(),
        cut in any::<prop::sample::Index>(),
        reset in any::<bool>(),
    ) {
        let cut = cut.index(raw.len());
        // An orderly close ends a body that is delimited by it.
        prop_assume!(reset || !until_close || cut < head);
        let end = reset.then_some(io::ErrorKind::ConnectionReset);
        let seen = block_on(run("GET / HTTP/1.1\r\n\r\n", &raw[..cut], &[17], 64, end));
        prop_assert!(!seen.idle);
        match seen.fault {
            Some(Fault::Disconnected { reused: false }) => prop_assert_eq!(cut, 0),
            Some(Fault::Truncated { .. }) => prop_assert!(cut > 0),
            other => prop_assert!(false, "{:?}", other),
        }
    }

    #[test]
    fn no_bytes_make_it_panic_or_hang(
        raw in prop::collection::vec(any::<u8>(), 0..300),
        start in prop::sample::select(vec!["", "HTTP/1.1 200 OK\r\n", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"]),
        room in 1usize..50,
    ) {
        let raw = [start.as_bytes(), &raw].concat();
        let _ = block_on(run("GET / HTTP/1.1\r\n\r\n", &raw, &[5], room, None));
    }
}
