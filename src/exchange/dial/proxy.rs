//! A tunnel through a proxy: HTTP CONNECT (RFC 9110, 9.3.6) and SOCKS5 (RFC 1928, 1929).
//!
//! Both are asked for a tunnel for http and https alike, so that a proxy never sees a request and a request never holds
//! the proxy's credentials. What fails is told apart: the proxy's own failure is no word about the site.

use std::io;
use std::net::{IpAddr, SocketAddr};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::exchange::egress::{Credentials, Protocol};

/// The longest head that a proxy may answer CONNECT with.
const MOST_HEAD: usize = 16 * 1024;

/// Why there is no tunnel.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NoTunnel {
    /// The proxy does not work, or not for us.
    Proxy(String),
    /// The proxy works and cannot reach the target.
    Target(String),
}

/// Where the tunnel is to lead.
#[derive(Clone, Copy, Debug)]
pub(super) enum Goal<'a> {
    /// The proxy looks the name up.
    Name(&'a str, u16),
    /// An address.
    Address(SocketAddr),
}

/// Asks for a tunnel on a fresh connection to a proxy. Reads no byte beyond the proxy's answer.
pub(super) async fn tunnel(
    stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
    protocol: Protocol,
    credentials: Option<&Credentials>,
    goal: Goal<'_>,
) -> Result<(), NoTunnel> {
    match protocol {
        Protocol::Http => connect(stream, credentials, goal).await,
        Protocol::Socks5 | Protocol::Socks5h => socks5(stream, credentials, goal).await,
    }
}

fn broken(error: &io::Error) -> NoTunnel {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => {
            NoTunnel::Proxy("it closed the connection before its answer".to_owned())
        }
        _ => NoTunnel::Proxy(error.to_string()),
    }
}

async fn connect(
    stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
    credentials: Option<&Credentials>,
    goal: Goal<'_>,
) -> Result<(), NoTunnel> {
    let authority = match goal {
        Goal::Name(host, port) => format!("{host}:{port}"),
        Goal::Address(address) => address.to_string(),
    };
    let mut request = format!("CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n");
    if let Some(Credentials { username, password }) = credentials {
        let pair = BASE64.encode(format!("{username}:{}", password.expose()));
        request.push_str(&format!("Proxy-Authorization: Basic {pair}\r\n"));
    }
    request.push_str("\r\n");
    let sent = stream.write_all(request.as_bytes()).await;
    sent.map_err(|error| broken(&error))?;
    // Byte by byte: what follows the head belongs to the tunnel. A head is short, and read once per connection.
    let mut head = Vec::with_capacity(256);
    while !head.ends_with(b"\r\n\r\n") && !head.ends_with(b"\n\n") {
        if head.len() >= MOST_HEAD {
            return Err(NoTunnel::Proxy("its answer has no end".to_owned()));
        }
        head.push(stream.read_u8().await.map_err(|error| broken(&error))?);
        if !b"HTTP/1.".starts_with(&head[..head.len().min(7)]) {
            return Err(NoTunnel::Proxy("it does not speak HTTP".to_owned()));
        }
    }
    judge(status(&head))
}

fn status(head: &[u8]) -> Option<u16> {
    let line = head.split(|byte| *byte == b'\n').next()?;
    let word = line.split(|byte| *byte == b' ').nth(1)?;
    let text = std::str::from_utf8(word).ok()?.trim();
    (text.len() == 3).then(|| text.parse().ok())?
}

fn judge(status: Option<u16>) -> Result<(), NoTunnel> {
    match status {
        Some(200..=299) => Ok(()),
        Some(407) => Err(NoTunnel::Proxy(
            "407: it does not take these credentials".to_owned(),
        )),
        // What a gateway says of those behind it (RFC 9110, 15.6.3 to 15.6.5).
        Some(status @ 502..=504) => Err(NoTunnel::Target(format!("the proxy answered {status}"))),
        Some(status) => Err(NoTunnel::Proxy(format!("it answered {status} to CONNECT"))),
        None => Err(NoTunnel::Proxy("it does not speak HTTP".to_owned())),
    }
}

const VERSION: u8 = 5;
const NO_AUTHENTICATION: u8 = 0;
const USER_AND_PASSWORD: u8 = 2;

async fn socks5(
    stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
    credentials: Option<&Credentials>,
    goal: Goal<'_>,
) -> Result<(), NoTunnel> {
    let refused = |why: &str| NoTunnel::Proxy(why.to_owned());
    let greeting: &[u8] = match credentials {
        None => &[VERSION, 1, NO_AUTHENTICATION],
        Some(_) => &[VERSION, 2, NO_AUTHENTICATION, USER_AND_PASSWORD],
    };
    exchange(stream, greeting).await?;
    match (read::<2>(stream).await?, credentials) {
        ([VERSION, NO_AUTHENTICATION], _) => {}
        ([VERSION, USER_AND_PASSWORD], Some(credentials)) => {
            let (user, password) = (&credentials.username, credentials.password.expose());
            let mut message = vec![1];
            for text in [user.as_str(), password] {
                let length = u8::try_from(text.len())
                    .map_err(|_| refused("its user name or password is longer than 255 bytes"))?;
                message.push(length);
                message.extend_from_slice(text.as_bytes());
            }
            exchange(stream, &message).await?;
            let [_, verdict] = read::<2>(stream).await?;
            if verdict != 0 {
                return Err(refused("it does not take these credentials"));
            }
        }
        ([VERSION, 0xff | USER_AND_PASSWORD], None) => {
            return Err(refused("it asks for credentials"));
        }
        ([VERSION, _], _) => return Err(refused("it takes no user name and password")),
        _ => return Err(refused("it does not speak SOCKS5")),
    }
    let mut request = vec![VERSION, 1, 0];
    let port = match goal {
        Goal::Address(address) => {
            match address.ip() {
                IpAddr::V4(v4) => {
                    request.push(1);
                    request.extend_from_slice(&v4.octets());
                }
                IpAddr::V6(v6) => {
                    request.push(4);
                    request.extend_from_slice(&v6.octets());
                }
            }
            address.port()
        }
        Goal::Name(host, port) => {
            let length = u8::try_from(host.len())
                .map_err(|_| NoTunnel::Target("the host name is too long".to_owned()))?;
            request.extend_from_slice(&[3, length]);
            request.extend_from_slice(host.as_bytes());
            port
        }
    };
    request.extend_from_slice(&port.to_be_bytes());
    exchange(stream, &request).await?;
    let [version, reply, _, kind] = read::<4>(stream).await?;
    if version != VERSION {
        return Err(refused("it does not speak SOCKS5"));
    }
    socks_verdict(reply)?;
    // The address that it uses, which nobody needs.
    let length = match kind {
        1 => 4,
        3 => usize::from(read::<1>(stream).await?[0]),
        4 => 16,
        _ => return Err(refused("it does not speak SOCKS5")),
    };
    let mut rest = [0; 255 + 2];
    let read = stream.read_exact(&mut rest[..length + 2]).await;
    read.map_err(|error| broken(&error))?;
    Ok(())
}

/// Replies of RFC 1928, 6. A general failure is what many servers say of a target that they cannot reach.
fn socks_verdict(reply: u8) -> Result<(), NoTunnel> {
    let target = |why: &str| Err(NoTunnel::Target(format!("the proxy says: {why}")));
    match reply {
        0 => Ok(()),
        1 => target("general failure"),
        3 => target("network unreachable"),
        4 => target("host unreachable"),
        5 => target("connection refused"),
        6 => target("too far away"),
        2 => Err(NoTunnel::Proxy("its rules do not allow it".to_owned())),
        _ => Err(NoTunnel::Proxy(format!("it answered with code {reply}"))),
    }
}

async fn exchange(stream: &mut (impl AsyncWrite + Unpin), message: &[u8]) -> Result<(), NoTunnel> {
    let sent = stream.write_all(message).await;
    sent.map_err(|error| broken(&error))
}

async fn read<const N: usize>(stream: &mut (impl AsyncRead + Unpin)) -> Result<[u8; N], NoTunnel> {
    let mut bytes = [0; N];
    let read = stream.read_exact(&mut bytes).await;
    read.map_err(|error| broken(&error))?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tokio::io::duplex;

    use super::*;
    use crate::settings::Secret;

    /// What comes of a proxy that says `answer` and closes; and what it was sent.
    fn ask(
        protocol: Protocol,
        credentials: bool,
        answer: &[u8],
    ) -> (Result<(), NoTunnel>, Vec<u8>) {
        let runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = { runtime }.build().unwrap();
        runtime.block_on(async {
            let (mut near, mut far) = duplex(64 * 1024);
            far.write_all(answer).await.unwrap();
            far.shutdown().await.unwrap();
            let credentials = credentials.then(|| Credentials {
                username: "u".to_owned(),
                password: Secret::new("p:w"),
            });
            let goal = Goal::Name("a.example", 80);
            let result = tunnel(&mut near, protocol, credentials.as_ref(), goal).await;
            drop(near);
            let mut sent = Vec::new();
            far.read_to_end(&mut sent).await.unwrap();
            (result, sent)
        })
    }

    #[test]
    fn connect_is_asked_with_credentials() {
        let answer = b"HTTP/1.1 200 Connection established\r\n\r\n";
        let (result, sent) = ask(Protocol::Http, true, answer);
        assert_eq!(result, Ok(()));
        let text = String::from_utf8(sent).unwrap();
        assert_eq!(
            text,
            "CONNECT a.example:80 HTTP/1.1\r\nHost: a.example:80\r\nProxy-Authorization: Basic dTpwOnc=\r\n\r\n"
        );
    }

    #[test]
    fn statuses_of_connect_tell_proxy_and_target_apart() {
        for (answer, proxy) in [
            ("HTTP/1.1 407 No\r\n\r\n", Some(true)),
            ("HTTP/1.1 454 Expired\r\n\r\n", Some(true)),
            ("HTTP/1.0 403 No\r\n\r\n", Some(true)),
            ("HTTP/1.1 502 Bad Gateway\r\n\r\n", Some(false)),
            ("HTTP/1.1 504 x\r\n\r\n", Some(false)),
            ("SSH-2.0-OpenSSH\r\n", Some(true)),
            ("HTTP/1.1 2", Some(true)),
            ("HTTP/1.0 200\r\n\r\n", None),
            ("HTTP/1.1 200 ok\n\n", None),
        ] {
            let got = match ask(Protocol::Http, false, answer.as_bytes()).0 {
                Ok(()) => None,
                Err(NoTunnel::Proxy(_)) => Some(true),
                Err(NoTunnel::Target(_)) => Some(false),
            };
            assert_eq!(got, proxy, "{answer}");
        }
    }

    #[test]
    fn socks5_is_asked_by_name_with_credentials() {
        let answer = [5, 2, 1, 0, 5, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        let (result, sent) = ask(Protocol::Socks5h, true, &answer);
        assert_eq!(result, Ok(()));
        assert_eq!(
            sent,
            b"\x05\x02\x00\x02\x01\x01u\x03p:w\x05\x01\x00\x03\x09a.example\x00\x50"
        );
    }

    #[test]
    fn replies_of_socks5_tell_proxy_and_target_apart() {
        let connected = |reply| vec![5, 0, 5, reply, 0, 1, 0, 0, 0, 0, 0, 0];
        for (answer, proxy) in [
            (connected(0), None),
            (connected(1), Some(false)),
            (connected(4), Some(false)),
            (connected(5), Some(false)),
            (connected(2), Some(true)),
            (connected(8), Some(true)),
            (vec![5, 0xff], Some(true)),
            (vec![5, 2], Some(true)),
            (vec![4, 0], Some(true)),
            (vec![], Some(true)),
            (vec![5, 0, 5, 0, 0, 9], Some(true)),
        ] {
            let got = match ask(Protocol::Socks5, false, &answer).0 {
                Ok(()) => None,
                Err(NoTunnel::Proxy(_)) => Some(true),
                Err(NoTunnel::Target(_)) => Some(false),
            };
            assert_eq!(got, proxy, "{answer:?}");
        }
        let refused = ask(Protocol::Socks5, true, &[5, 2, 1, 1]).0;
        assert!(matches!(refused, Err(NoTunnel::Proxy(why)) if why.contains("credentials")));
    }

    proptest! {
        /// Whatever a proxy says: no panic, no hang, and no tunnel where it did not say so.
        #[test]
        fn any_bytes_are_an_answer_or_a_named_failure(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            for protocol in [Protocol::Http, Protocol::Socks5] {
                let _ = ask(protocol, true, &bytes);
            }
            if !bytes.starts_with(b"HTTP/1.") {
                prop_assert!(ask(Protocol::Http, false, &bytes).0.is_err());
            }
        }

        /// Bytes behind the answer stay in the connection.
        #[test]
        fn what_follows_the_answer_is_left(rest in prop::collection::vec(any::<u8>(), 0..50)) {
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            let left = runtime.block_on(async {
                let (mut near, mut far) = duplex(4096);
                far.write_all(b"HTTP/1.1 200 x\r\nA: b\r\n\r\n").await.unwrap();
                far.write_all(&rest).await.unwrap();
                far.shutdown().await.unwrap();
                tunnel(&mut near, Protocol::Http, None, Goal::Name("a", 1)).await.unwrap();
                let mut left = Vec::new();
                near.read_to_end(&mut left).await.unwrap();
                left
            });
            prop_assert_eq!(left, rest);
        }
    }
}
