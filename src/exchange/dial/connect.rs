//! TCP connections to the addresses of a host, the next one a little after the one before (RFC 8305).

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::net::TcpStream;

/// A further address is tried when the one before has not answered for this long (RFC 8305).
const STAGGER: Duration = Duration::from_millis(250);

/// Address families in turn, beginning with the one the resolver prefers.
pub(super) fn alternate(addresses: Vec<SocketAddr>) -> Vec<SocketAddr> {
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
pub(super) async fn connect(addresses: Vec<SocketAddr>) -> io::Result<TcpStream> {
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
