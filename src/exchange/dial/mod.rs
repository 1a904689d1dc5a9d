//! The way to a server: names, addresses, proxies, TCP, TLS. awc's connect clock runs over all of it.

mod connect;
mod guard;
mod names;
mod proxy;
mod resolve;
mod stream;
mod tls;

use std::cell::Cell;
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

use actix_service::Service;
use actix_tls::connect::{ConnectError, ConnectInfo, Connection};
use awc::http::Uri;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use self::connect::{alternate, connect};
pub(super) use self::names::Lifetimes;
use self::proxy::{Goal, NoTunnel, tunnel};
pub(super) use self::resolve::Names;
pub use self::resolve::{Lookup, SystemLookup};
pub(super) use self::stream::Stream;
use self::stream::{Io, Open};
pub(super) use self::tls::{read_ca_file, tls, unverified};
use super::egress::{Egress, Protocol, Proxy};
use super::error::Fault;
use super::network::Network;
use super::notes::{Notes, Slot};
use super::wire::Wire;

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
    /// Names, and what may not be dialled.
    pub(super) network: Network,
    /// The way out of every connection of this dialler; `None`: direct.
    pub(super) egress: Option<Arc<Egress>>,
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
        let port = uri.port_u16().unwrap_or(80);
        let egress = self.egress.as_ref();
        let tcp = match egress.and_then(|egress| Some((egress, egress.proxy.as_ref()?))) {
            None => {
                let addresses = self.addresses(host, port).await?;
                notes.dialled.set(true);
                let connected = connect(addresses).await;
                connected.map_err(|error| Fault::Connect(error.to_string()))?
            }
            Some((egress, proxy)) => self.through(egress, proxy, host, port, notes).await?,
        };
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

    /// The addresses of a server that may be dialled. Here, and not before the request: what a name stood for then is
    /// not what it stands for now.
    async fn addresses(&self, host: &str, port: u16) -> Result<Vec<SocketAddr>, Fault> {
        let resolved = self.network.names().resolve(host).await;
        let resolved = resolved.map_err(|why| Fault::Dns(why.to_string()))?;
        let allowed = self.allowed(&resolved)?;
        let addresses = allowed.into_iter().map(|ip| SocketAddr::new(ip, port));
        Ok(alternate(addresses.collect()))
    }

    /// Those of `addresses` that may be dialled; an error where none may.
    fn allowed(&self, addresses: &[IpAddr]) -> Result<Vec<IpAddr>, Fault> {
        if !self.network.denies_private() {
            return Ok(addresses.to_vec());
        }
        let mut denied = None;
        let mut allowed = Vec::new();
        for address in addresses {
            match guard::not_public(*address) {
                None => allowed.push(*address),
                Some(kind) => denied = Some((*address, kind)),
            }
        }
        match denied {
            Some((address, kind)) if allowed.is_empty() => Err(Fault::Denied { address, kind }),
            _ => Ok(allowed),
        }
    }

    /// A tunnel to the server through a proxy.
    async fn through(
        &self,
        egress: &Egress,
        proxy: &Proxy,
        host: &str,
        port: u16,
        notes: &Notes,
    ) -> Result<TcpStream, Fault> {
        let failed = |why: String| Fault::Proxy {
            egress: Arc::clone(&egress.name),
            why,
        };
        let literal = host.parse::<IpAddr>().ok();
        let goal = match (literal, proxy.protocol) {
            // Where the proxy looks names up nobody here can know what they stand for: literals are judged all the same.
            (Some(address), _) => {
                self.allowed(&[address])?;
                Goal::Address(SocketAddr::new(address, port))
            }
            (None, Protocol::Socks5) => match self.addresses(host, port).await?[..] {
                [first, ..] => Goal::Address(first),
                [] => return Err(Fault::Dns("it has no address".to_owned())),
            },
            (None, Protocol::Http | Protocol::Socks5h) => Goal::Name(host, port),
        };
        // From here until there is a tunnel, time that runs out is the proxy's.
        notes.tunnelling.replace(Some(Arc::clone(&egress.name)));
        let resolved = self.network.names().resolve(&proxy.host).await;
        let resolved =
            resolved.map_err(|why| failed(format!("its name was not resolved: {why}")))?;
        let addresses = resolved.iter().map(|ip| SocketAddr::new(*ip, proxy.port));
        let mut tcp = connect(alternate(addresses.collect()))
            .await
            .map_err(|error| failed(format!("no connection: {error}")))?;
        let asked = tunnel(&mut tcp, proxy.protocol, proxy.credentials.as_ref(), goal).await;
        notes.tunnelling.take();
        match asked {
            Ok(()) => {
                notes.dialled.set(true);
                Ok(tcp)
            }
            Err(NoTunnel::Proxy(why)) => Err(failed(why)),
            Err(NoTunnel::Target(why)) => {
                notes.dialled.set(true);
                Err(Fault::Connect(why))
            }
        }
    }
}
