//! The way to a server: names, addresses, TCP, TLS. awc's connect clock runs over all of it.

use std::cell::Cell;
use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use actix_service::Service;
use actix_tls::connect::{ConnectError, ConnectInfo, Connection};
use awc::http::Uri;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::error::Fault;
use super::notes::{Notes, Slot};
use super::wire::Wire;

/// A further address is tried when the one before has not answered for this long (RFC 8305).
const STAGGER: Duration = Duration::from_millis(250);

/// awc's connector: dials, wraps, counts.
#[derive(Clone)]
pub(super) struct Dial {
    pub(super) slot: Slot,
    /// TLS for every connection of this dialler, or none.
    pub(super) tls: Option<TlsConnector>,
    /// Bytes of an answer's head.
    pub(super) max_head: usize,
    /// Connections that are open.
    pub(super) open: Rc<Cell<usize>>,
}

impl Service<ConnectInfo<Uri>> for Dial {
    type Response = Connection<Uri, Wire<Stream>>;
    type Error = ConnectError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, ConnectError>>>>;

    fn poll_ready(&self, _: &mut Context<'_>) -> Poll<Result<(), ConnectError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&self, info: ConnectInfo<Uri>) -> Self::Future {
        let dial = self.clone();
        let notes = self.slot.current();
        Box::pin(async move {
            let uri = info.request().clone();
            match dial.dial(&uri, &notes).await {
                Ok(stream) => {
                    let wire = Wire::new(stream, dial.slot, dial.max_head);
                    Ok(Connection::new(uri, wire))
                }
                Err(fault) => {
                    let error = io::Error::other(fault.to_string());
                    notes.fault.replace(Some(fault));
                    Err(ConnectError::Io(error))
                }
            }
        })
    }
}

impl Dial {
    async fn dial(&self, uri: &Uri, notes: &Notes) -> Result<Stream, Fault> {
        let host = uri.host().unwrap_or_default();
        let host = host
            .strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'))
            .unwrap_or(host);
        let addresses = tokio::net::lookup_host((host, uri.port_u16().unwrap_or(80)))
            .await
            .map_err(|error| Fault::Dns(error.to_string()))?;
        let addresses = alternate(addresses.collect());
        if addresses.is_empty() {
            return Err(Fault::Dns("it has no address".to_owned()));
        }
        notes.dialled.set(true);
        let tcp = connect(addresses)
            .await
            .map_err(|error| Fault::Connect(error.to_string()))?;
        // Requests are written whole: waiting for more to send would only delay them.
        let _ = tcp.set_nodelay(true);
        let io = match &self.tls {
            None => Io::Plain(tcp),
            Some(tls) => {
                let name = ServerName::try_from(host.to_owned())
                    .map_err(|_| Fault::Tls("the host is not a valid server name".to_owned()))?;
                let stream = tls.connect(name, tcp).await;
                Io::Tls(Box::new(
                    stream.map_err(|error| Fault::Tls(error.to_string()))?,
                ))
            }
        };
        Ok(Stream {
            io,
            _open: Open::new(&self.open),
        })
    }
}

/// Address families in turn, beginning with the one the resolver prefers.
fn alternate(addresses: Vec<SocketAddr>) -> Vec<SocketAddr> {
    let first_is_v6 = addresses.first().is_some_and(SocketAddr::is_ipv6);
    let (mut first, mut other): (VecDeque<_>, VecDeque<_>) = addresses
        .into_iter()
        .partition(|address| address.is_ipv6() == first_is_v6);
    let mut ordered = Vec::with_capacity(first.len() + other.len());
    while !first.is_empty() || !other.is_empty() {
        ordered.extend(first.pop_front());
        ordered.extend(other.pop_front());
    }
    ordered
}

/// The first connection that comes about; the addresses start one after another.
async fn connect(addresses: Vec<SocketAddr>) -> io::Result<TcpStream> {
    let mut rest = addresses.into_iter().peekable();
    let mut attempts = FuturesUnordered::new();
    let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
    loop {
        if let Some(address) = rest.next() {
            attempts.push(TcpStream::connect(address));
        }
        let ended = if rest.peek().is_some() {
            match tokio::time::timeout(STAGGER, attempts.next()).await {
                Ok(ended) => ended,
                Err(_) => continue,
            }
        } else {
            attempts.next().await
        };
        match ended {
            Some(Ok(stream)) => return Ok(stream),
            Some(Err(error)) => last = error,
            None => return Err(last),
        }
    }
}

/// Reads the certificate authorities of a PEM file.
///
/// # Errors
/// A text that says what is wrong with the file.
pub(super) fn read_ca_file(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let certificates = CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| error.to_string())?;
    if certificates.is_empty() {
        return Err("it holds no certificate; allowed: one or more PEM certificates".to_owned());
    }
    Ok(certificates)
}

/// TLS with the public authorities and `more`; no process-wide provider is installed or needed.
///
/// # Errors
/// A text that says which of `more` is not usable.
pub(super) fn tls(more: Vec<CertificateDer<'static>>) -> Result<TlsConnector, String> {
    let mut roots = RootCertStore::from_iter(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
    for certificate in more {
        roots.add(certificate).map_err(|error| error.to_string())?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsConnector::from(Arc::new(config)))
}

/// Counts an open connection while it lives.
#[derive(Debug)]
struct Open(Rc<Cell<usize>>);

impl Open {
    fn new(count: &Rc<Cell<usize>>) -> Self {
        count.set(count.get() + 1);
        Self(Rc::clone(count))
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.set(self.0.get().saturating_sub(1));
    }
}

#[derive(Debug)]
enum Io {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

/// TCP, or TLS over it.
#[derive(Debug)]
pub(super) struct Stream {
    io: Io,
    _open: Open,
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match &mut self.get_mut().io {
            Io::Plain(io) => Pin::new(io).poll_read(cx, buf),
            Io::Tls(io) => Pin::new(io).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        match &mut self.get_mut().io {
            Io::Plain(io) => Pin::new(io).poll_write(cx, buf),
            Io::Tls(io) => Pin::new(io).poll_write(cx, buf),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().io {
            Io::Plain(io) => Pin::new(io).poll_flush(cx),
            Io::Tls(io) => Pin::new(io).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().io {
            Io::Plain(io) => Pin::new(io).poll_shutdown(cx),
            Io::Tls(io) => Pin::new(io).poll_shutdown(cx),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_take_turns() {
        let parse = |text: &str| text.parse::<SocketAddr>().unwrap();
        let v6 = ["[::1]:1", "[::2]:1", "[::3]:1"].map(parse);
        let v4 = ["1.1.1.1:1"].map(parse);
        let ordered = alternate([v6[0], v6[1], v6[2], v4[0]].to_vec());
        assert_eq!(ordered, [v6[0], v4[0], v6[1], v6[2]]);
    }

    #[actix_rt::test]
    async fn a_dead_address_does_not_hide_a_live_one() {
        let dead = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let dead_address = dead.local_addr().unwrap();
        drop(dead);
        let live = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let live_address = live.local_addr().unwrap();
        let stream = connect(vec![dead_address, live_address]).await.unwrap();
        assert_eq!(stream.peer_addr().unwrap(), live_address);
        assert!(connect(vec![dead_address]).await.is_err());
    }
}
