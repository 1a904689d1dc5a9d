//! A raw TCP server that says exactly what it is told, and a permit that remembers what became of it.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::rc::Rc;
use std::time::Duration;

use crawler_node::exchange::{Client, ExchangePermit, Exchanged, Fault};
use crawler_node::model::{Answer, Request};
use crawler_node::settings::{ExchangeSettings, Settings};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;
use url::Url;

/// No test may take longer.
const PATIENCE: Duration = Duration::from_secs(20);

/// What the server does after the bytes of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Then {
    /// Reads the next request.
    Keep,
    /// Closes the connection in order.
    Close,
    /// Resets the connection.
    Reset,
    /// Closes the connection; under TLS, without the alert that says so.
    Cut,
    /// Says nothing more, ever.
    Hang,
}

/// One reply: pieces that are written one by one.
#[derive(Clone, Debug)]
pub(crate) struct Reply {
    pieces: Vec<Vec<u8>>,
    then: Then,
}

pub(crate) fn reply(bytes: impl AsRef<[u8]>, then: Then) -> Reply {
    let pieces = vec![bytes.as_ref().to_vec()];
    Reply { pieces, then }
}

/// `bytes` in pieces of `size` bytes.
pub(crate) fn in_pieces(bytes: impl AsRef<[u8]>, size: usize, then: Then) -> Reply {
    let pieces = bytes.as_ref().chunks(size).map(<[u8]>::to_vec).collect();
    Reply { pieces, then }
}

/// A whole answer with a length, as a well-behaved server writes it.
pub(crate) fn ok(body: &str) -> Reply {
    let length = body.len();
    let text = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{body}");
    reply(text, Then::Keep)
}

/// The server: reply number n to request number n, the last one for all that follow.
#[derive(Clone)]
pub(crate) struct Server {
    pub(crate) port: u16,
    connections: Rc<Cell<usize>>,
    requests: Rc<RefCell<Vec<String>>>,
    replies: Rc<Vec<Reply>>,
}

impl Server {
    pub(crate) async fn start(replies: Vec<Reply>) -> Self {
        Self::start_with(replies, None).await
    }

    pub(crate) async fn start_with(replies: Vec<Reply>, tls: Option<TlsAcceptor>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = Self {
            port: listener.local_addr().unwrap().port(),
            connections: Rc::default(),
            requests: Rc::default(),
            replies: Rc::new(replies),
        };
        let accepting = server.clone();
        actix_rt::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                // Pieces leave one by one, and none waits for an acknowledgement.
                stream.set_nodelay(true).unwrap();
                let count = &accepting.connections;
                count.set(count.get() + 1);
                let (server, tls) = (accepting.clone(), tls.clone());
                actix_rt::spawn(async move {
                    match tls {
                        None => server.plain(stream).await,
                        Some(tls) => {
                            if let Ok(mut stream) = tls.accept(stream).await {
                                let mut then = Some(Then::Keep);
                                while then == Some(Then::Keep) {
                                    then = server.serve(&mut stream).await;
                                }
                                match then {
                                    Some(Then::Reset) => {
                                        stream.get_ref().0.set_zero_linger().unwrap();
                                    }
                                    Some(Then::Cut) => {}
                                    _ => drop(stream.shutdown().await),
                                }
                            }
                        }
                    }
                });
            }
        });
        server
    }

    async fn plain(&self, mut stream: TcpStream) {
        loop {
            match self.serve(&mut stream).await {
                Some(Then::Keep) => {}
                Some(Then::Reset) => return stream.set_zero_linger().unwrap(),
                _ => return,
            }
        }
    }

    /// One request and its reply.
    async fn serve(&self, stream: &mut (impl AsyncRead + AsyncWrite + Unpin)) -> Option<Then> {
        let mut request = Vec::new();
        loop {
            if stream.read_buf(&mut request).await.unwrap_or(0) == 0 {
                return None;
            }
            let text = String::from_utf8_lossy(&request);
            if let Some((head, body)) = text.split_once("\r\n\r\n") {
                let length = head.lines().find_map(|line| {
                    let (name, value) = line.split_once(": ")?;
                    name.eq_ignore_ascii_case("content-length")
                        .then(|| value.parse().unwrap())
                });
                if body.len() >= length.unwrap_or(0) {
                    break;
                }
            }
        }
        let number = self.requests.borrow().len();
        let text = String::from_utf8_lossy(&request).into_owned();
        self.requests.borrow_mut().push(text);
        let reply = self.replies.get(number).or(self.replies.last())?.clone();
        for piece in &reply.pieces {
            stream.write_all(piece).await.ok()?;
            stream.flush().await.ok()?;
            // Lets the client read this piece before the next one is written.
            tokio::task::yield_now().await;
        }
        if reply.then == Then::Hang {
            std::future::pending::<()>().await;
        }
        Some(reply.then)
    }

    pub(crate) fn url(&self, path: &str) -> Url {
        Url::parse(&format!("http://127.0.0.1:{}{path}", self.port)).unwrap()
    }

    pub(crate) fn connections(&self) -> usize {
        self.connections.get()
    }

    pub(crate) fn requests(&self) -> Vec<String> {
        self.requests.borrow().clone()
    }
}

/// A permit that writes down how it was released.
pub(crate) struct TestPermit {
    pub(crate) deadline: Instant,
    pub(crate) released: Rc<RefCell<Vec<bool>>>,
}

impl TestPermit {
    pub(crate) fn new() -> Self {
        Self {
            deadline: Instant::now() + Duration::from_secs(60),
            released: Rc::default(),
        }
    }
}

impl ExchangePermit for TestPermit {
    type Receipt = bool;

    fn deadline(&self) -> Instant {
        self.deadline
    }

    fn release(self, used: bool) -> bool {
        self.released.borrow_mut().push(used);
        used
    }
}

pub(crate) fn settings() -> ExchangeSettings {
    Settings::default().exchange
}

pub(crate) fn client(settings: &ExchangeSettings) -> Client {
    Client::new(settings, "test-agent/1.0").unwrap()
}

/// One GET; the receipt says whether the permit was used.
pub(crate) async fn exchange(client: &Client, url: Url) -> Exchanged<bool> {
    within(client.exchange(TestPermit::new(), &Request::get(url))).await
}

pub(crate) async fn get(client: &Client, url: Url) -> Result<Answer, Fault> {
    let result = exchange(client, url).await.result;
    result.map_err(|error| error.fault)
}

/// The only exchange of a server that gives one reply, with default settings.
pub(crate) async fn only(reply: Reply) -> Result<Answer, Fault> {
    let server = Server::start(vec![reply]).await;
    get(&client(&settings()), server.url("/only")).await
}

pub(crate) async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future)
        .await
        .expect("the exchange must not hang")
}
