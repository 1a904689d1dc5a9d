//! Proxies, names and private addresses, over real sockets: proxies that ask for credentials, die, are silent, or are none.

use std::cell::{Cell, RefCell};
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use crawler_node::exchange::{
    Client, Egress, ExchangePermit, Fault, Lookup, Network, Offer, Slot, SystemLookup, Wanted,
};
use crawler_node::model::{Answer, Outcome, Request};
use crawler_node::settings::{EgressSettings, Secret, Settings};
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::Instant;
use url::Url;

use crate::support::{Server, TestPermit, Then, ok, reply, within};

/// How a proxy behaves.
#[derive(Clone, Copy, PartialEq)]
enum Mood {
    Works,
    DiesAfter(usize),
    Says(&'static str),
    Silent,
}

/// A proxy of both kinds, which asks for `user:secret-NAME`.
#[derive(Clone)]
struct Proxy {
    port: u16,
    /// What CONNECT was asked with; of SOCKS5 the name or address and the credentials.
    asked: Rc<RefCell<Vec<String>>>,
    tunnels: Rc<Cell<usize>>,
}

const PASSWORD: &str = "secret-a";

impl Proxy {
    async fn start(mood: Mood) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let proxy = Self {
            port: listener.local_addr().unwrap().port(),
            asked: Rc::default(),
            tunnels: Rc::default(),
        };
        let own = proxy.clone();
        actix_rt::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                if matches!(mood, Mood::DiesAfter(most) if own.tunnels.get() >= most) {
                    return;
                }
                let own = own.clone();
                actix_rt::spawn(async move { own.serve(stream, mood).await });
            }
        });
        proxy
    }

    async fn serve(&self, mut stream: TcpStream, mood: Mood) -> Option<()> {
        match mood {
            Mood::Silent => std::future::pending().await,
            Mood::Says(text) => {
                let mut head = [0; 1024];
                let _ = stream.read(&mut head).await;
                stream.write_all(text.as_bytes()).await.ok()?;
                return None;
            }
            Mood::Works | Mood::DiesAfter(_) => {}
        }
        let first = stream.read_u8().await.ok()?;
        let target = if first == 5 {
            self.socks(&mut stream).await?
        } else {
            self.connect(&mut stream).await?
        };
        self.tunnels.set(self.tunnels.get() + 1);
        let mut far = TcpStream::connect(target).await.ok()?;
        let _ = copy_bidirectional(&mut stream, &mut far).await;
        None
    }

    async fn connect(&self, stream: &mut TcpStream) -> Option<String> {
        let mut head = vec![b'C'];
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.ok()?);
        }
        let text = String::from_utf8(head).unwrap();
        self.asked.borrow_mut().push(text.clone());
        // user:secret-a
        if !text.contains("Proxy-Authorization: Basic dXNlcjpzZWNyZXQtYQ==\r\n") {
            let _ = stream.write_all(b"HTTP/1.1 407 No\r\n\r\n").await;
            return None;
        }
        let target = text.split(' ').nth(1)?.to_owned();
        stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.ok()?;
        Some(target)
    }

    async fn socks(&self, stream: &mut TcpStream) -> Option<String> {
        let methods = stream.read_u8().await.ok()?;
        let mut offered = vec![0; methods.into()];
        stream.read_exact(&mut offered).await.ok()?;
        stream.write_all(&[5, 2]).await.ok()?;
        stream.read_u8().await.ok()?;
        let mut texts = Vec::new();
        for _ in 0..2 {
            let mut text = vec![0; stream.read_u8().await.ok()?.into()];
            stream.read_exact(&mut text).await.ok()?;
            texts.push(String::from_utf8(text).unwrap());
        }
        let good = texts == ["user", PASSWORD];
        stream.write_all(&[1, u8::from(!good)]).await.ok()?;
        let mut request = [0; 4];
        stream.read_exact(&mut request).await.ok()?;
        let host = match request[3] {
            1 => {
                let mut octets = [0; 4];
                stream.read_exact(&mut octets).await.ok()?;
                IpAddr::from(octets).to_string()
            }
            3 => {
                let mut name = vec![0; stream.read_u8().await.ok()?.into()];
                stream.read_exact(&mut name).await.ok()?;
                String::from_utf8(name).unwrap()
            }
            _ => return None,
        };
        let port = stream.read_u16().await.ok()?;
        self.asked
            .borrow_mut()
            .push(format!("{host} {}", texts.join(":")));
        stream
            .write_all(&[5, 0, 0, 1, 0, 0, 0, 0, 0, 0])
            .await
            .ok()?;
        Some(format!("{host}:{port}"))
    }
}

fn egress(scheme: &str, port: u16, password: &str) -> EgressSettings {
    EgressSettings {
        url: Some(format!("{scheme}://127.0.0.1:{port}")),
        username: Some("user".to_owned()),
        password: Some(Secret::new(password)),
        ..EgressSettings::default()
    }
}

fn settings(egresses: Vec<(&str, EgressSettings)>) -> Settings {
    let egress = egresses
        .into_iter()
        .map(|(name, set)| (name.to_owned(), set));
    Settings {
        egress: egress.collect(),
        ..Settings::default()
    }
}

/// A client and its network.
fn client(settings: &Settings) -> (Client, Network) {
    let network = Network::new(settings);
    let client = Client::within(&network, &settings.exchange, "test/1.0").unwrap();
    (client, network)
}

struct Through(TestPermit, Slot);

impl ExchangePermit for Through {
    type Receipt = bool;

    fn egress(&self) -> Option<&Arc<Egress>> {
        Some(self.1.egress())
    }

    fn deadline(&self) -> Instant {
        self.0.deadline()
    }

    fn release(self, used: bool) -> bool {
        self.0.release(used)
    }
}

async fn get(way: &(Client, Network), egress: &str, url: Url) -> Result<Answer, Fault> {
    let slot = way.1.take(egress).unwrap();
    let permit = Through(TestPermit::new(), slot);
    let exchanged = within(way.0.exchange(permit, &Request::get(url))).await;
    exchanged.result.map_err(|error| error.fault)
}

fn is_proxy(result: &Result<Answer, Fault>) -> bool {
    matches!(result, Err(Fault::Proxy { .. }))
}

#[actix_rt::test]
async fn requests_go_through_tunnels_of_each_kind_and_keep_them() {
    for scheme in ["http", "socks5", "socks5h"] {
        let server = Server::start(vec![ok("x")]).await;
        let proxy = Proxy::start(Mood::Works).await;
        let way = client(&settings(vec![("a", egress(scheme, proxy.port, PASSWORD))]));
        let mut url = server.url("/x");
        url.set_host(Some("localhost")).unwrap();
        for _ in 0..3 {
            let answer = get(&way, "a", url.clone()).await.unwrap();
            assert_eq!(answer.body, "x");
        }
        assert_eq!(proxy.tunnels.get(), 1, "{scheme}");
        let asked = proxy.asked.borrow()[0].clone();
        // Who looks the name up is what the schemes differ in.
        assert_eq!(asked.contains("localhost"), scheme != "socks5", "{asked}");
    }
}

#[actix_rt::test]
async fn l55_credentials_are_right_on_every_try_and_never_reach_the_target() {
    let refusal = "HTTP/1.1 503 No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    let server = Server::start(vec![reply(refusal, Then::Close), ok("x")]).await;
    let (good, other) = (
        Proxy::start(Mood::Works).await,
        Proxy::start(Mood::Works).await,
    );
    let way = client(&settings(vec![
        ("good", egress("http", good.port, PASSWORD)),
        ("other", egress("http", other.port, "secret-b")),
    ]));
    assert_eq!(
        get(&way, "good", server.url("/")).await.unwrap().status,
        503
    );
    assert_eq!(
        get(&way, "good", server.url("/")).await.unwrap().status,
        200
    );
    let refused = get(&way, "other", server.url("/")).await;
    assert!(is_proxy(&refused), "{refused:?}");
    let text = format!("{refused:?} {way:?}");
    assert!(text.contains("407") && !text.contains("secret"), "{text}");
    assert_eq!(good.asked.borrow().len(), 2);
    assert!(
        good.asked
            .borrow()
            .iter()
            .all(|head| head.contains("dXNlcjpzZWNyZXQtYQ=="))
    );
    assert!(other.asked.borrow()[0].contains("dXNlcjpzZWNyZXQtYg=="));
    for request in server.requests() {
        let request = request.to_lowercase();
        assert!(
            !request.contains("proxy-") && !request.contains("dxnlcj"),
            "{request}"
        );
    }
    let smuggled = Request {
        headers: vec![("Proxy-Authorization".to_owned(), "Basic x".to_owned())],
        ..Request::get(server.url("/"))
    };
    let permit = Through(TestPermit::new(), way.1.take("good").unwrap());
    let result = within(way.0.exchange(permit, &smuggled)).await.result;
    assert!(matches!(
        result.unwrap_err().fault,
        Fault::InvalidHeader { .. }
    ));
}

#[actix_rt::test]
async fn l55_a_proxy_that_fails_is_named_and_is_not_the_site() {
    let server = Server::start(vec![ok("x")]).await;
    for (mood, why) in [
        (Mood::Says("HTTP/1.1 407 No\r\n\r\n"), "407"),
        (Mood::Says("HTTP/1.1 454 Gone\r\n\r\n"), "454"),
        (Mood::Says("SSH-2.0-x\r\n"), "does not speak HTTP"),
        (Mood::Says(""), "closed the connection"),
        (Mood::Silent, "connect_timeout"),
        (Mood::DiesAfter(0), ""),
    ] {
        let proxy = Proxy::start(mood).await;
        let mut set = settings(vec![("a", egress("http", proxy.port, PASSWORD))]);
        set.exchange.connect_timeout = Duration::from_millis(300);
        let way = client(&set);
        let permit = Through(TestPermit::new(), way.1.take("a").unwrap());
        let released = Rc::clone(&permit.0.released);
        let result = within(way.0.exchange(permit, &Request::get(server.url("/"))))
            .await
            .result;
        let error = result.unwrap_err();
        assert!(matches!(error.fault, Fault::Proxy { .. }), "{error}");
        assert!(
            error.to_string().contains("egress a") && error.to_string().contains(why),
            "{error}"
        );
        // The site was not asked: what it allows is not used up.
        assert_eq!(*released.borrow(), [false]);
    }
    assert!(server.requests().is_empty());
}

#[actix_rt::test]
async fn a_target_that_the_proxy_cannot_reach_is_the_targets_failure() {
    let server = Server::start(vec![ok("x")]).await;
    let proxy = Proxy::start(Mood::Says("HTTP/1.1 502 Bad Gateway\r\n\r\n")).await;
    let way = client(&settings(vec![("a", egress("http", proxy.port, PASSWORD))]));
    let result = get(&way, "a", server.url("/")).await;
    assert!(matches!(result, Err(Fault::Connect(_))), "{result:?}");
}

#[actix_rt::test]
async fn l55_a_proxy_that_dies_after_three_is_left_alone_and_replaced() {
    let close = "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nConnection: close\r\n\r\nx";
    let server = Server::start(vec![reply(close, Then::Close)]).await;
    let (dying, steady) = (
        Proxy::start(Mood::DiesAfter(3)).await,
        Proxy::start(Mood::Works).await,
    );
    let way = client(&settings(vec![
        ("a", egress("http", dying.port, PASSWORD)),
        ("b", egress("socks5h", steady.port, PASSWORD)),
    ]));
    let among = ["a".to_owned(), "b".to_owned()];
    let mut failures = 0;
    for _ in 0..20 {
        let mut tried = Vec::new();
        loop {
            let wanted = Wanted {
                site: "s",
                account: None,
                among: &among,
                tried: &tried,
            };
            let Offer::Go(name) = way.1.offer(wanted) else {
                panic!("one of them works");
            };
            let result = get(&way, &name, server.url("/")).await;
            if is_proxy(&result) {
                failures += 1;
                way.1.failed(&name, "told");
                tried.push(name);
                continue;
            }
            assert_eq!(result.unwrap().body, "x");
            way.1.worked(&name, "127.0.0.1");
            break;
        }
    }
    assert_eq!(failures, 3);
    let counts = way.1.egresses();
    assert_eq!(
        (counts["a"].exchanges, counts["a"].state.as_str()),
        (3, "down")
    );
    assert_eq!(
        (counts["b"].exchanges, counts["b"].state.as_str()),
        (17, "up")
    );
}

#[actix_rt::test]
async fn certificates_are_unchecked_only_through_an_egress_that_says_so() {
    let authority = crate::tls::authority();
    let server = Server::start_with(vec![ok("x")], Some(authority.acceptor.clone())).await;
    let proxy = Proxy::start(Mood::Works).await;
    let loose = EgressSettings {
        tls_verify: false,
        ..egress("http", proxy.port, PASSWORD)
    };
    let strict = egress("http", proxy.port, PASSWORD);
    let way = client(&settings(vec![("loose", loose), ("strict", strict)]));
    assert_eq!(way.1.unverified(), ["loose".into()]);
    // The name of the certificate is another one, too.
    for host in ["localhost", "127.0.0.1"] {
        let url = crate::tls::url(&server, host);
        assert_eq!(get(&way, "loose", url.clone()).await.unwrap().body, "x");
        for name in ["strict", "direct"] {
            let refused = get(&way, name, url.clone()).await;
            assert!(matches!(refused, Err(Fault::Tls(_))), "{name}: {refused:?}");
        }
    }
    assert_eq!(server.requests().len(), 2);
}

#[actix_rt::test]
async fn egresses_do_not_share_connections() {
    let server = Server::start(vec![ok("x")]).await;
    let (a, b) = (
        Proxy::start(Mood::Works).await,
        Proxy::start(Mood::Works).await,
    );
    let way = client(&settings(vec![
        ("a", egress("http", a.port, PASSWORD)),
        ("b", egress("http", b.port, PASSWORD)),
    ]));
    for name in ["a", "b", "direct", "a", "b", "direct"] {
        get(&way, name, server.url("/")).await.unwrap();
    }
    assert_eq!(
        (a.tunnels.get(), b.tunnels.get(), server.connections()),
        (1, 1, 3)
    );
}

/// Says what it is told; `slow` blocks until the test ends.
struct Told(Arc<(Mutex<bool>, Condvar)>);

impl Lookup for Told {
    fn lookup(&self, host: &str) -> std::io::Result<Vec<IpAddr>> {
        let public = IpAddr::from([93, 184, 215, 14]);
        let local = IpAddr::from([127, 0, 0, 1]);
        match host {
            "slow.example" => {
                let (ended, changed) = &*self.0;
                let mut ended = ended.lock().unwrap();
                while !*ended {
                    ended = changed.wait(ended).unwrap();
                }
                Ok(vec![public])
            }
            "private.example" => Ok(vec![local, "::ffff:10.0.0.1".parse().unwrap()]),
            // A black hole (RFC 6666) before the address that answers.
            "two.example" => Ok(vec!["100::1".parse().unwrap(), local]),
            _ => SystemLookup.lookup(host),
        }
    }
}

#[actix_rt::test]
async fn l54_a_slow_resolver_ends_with_the_connect_timeout_and_blocks_nobody() {
    let gate = Arc::new((Mutex::new(false), Condvar::new()));
    let mut set = settings(vec![]);
    set.exchange.connect_timeout = Duration::from_secs(2);
    let network = Network::with_lookup(&set, Told(Arc::clone(&gate)));
    let server = Server::start(vec![ok("x")]).await;
    let client = Client::within(&network, &set.exchange, "test/1.0").unwrap();
    let slow = Request::get(Url::parse("http://slow.example/").unwrap());
    let mut local = server.url("/");
    local.set_host(Some("localhost")).unwrap();
    let quick = async {
        for _ in 0..20 {
            let request = Request::get(local.clone());
            let asked = client.exchange(TestPermit::new(), &request);
            asked.await.result.unwrap();
        }
        Instant::now()
    };
    let slow = async {
        let result = client.exchange(TestPermit::new(), &slow).await.result;
        (result.unwrap_err().fault, Instant::now())
    };
    let (quick, (fault, late)) = within(futures_util::future::join(quick, slow)).await;
    assert_eq!(fault, Fault::ConnectTimeout);
    assert!(quick < late);
    *gate.0.lock().unwrap() = true;
    gate.1.notify_all();
}

#[actix_rt::test]
async fn a_black_hole_of_one_family_does_not_hide_the_other() {
    let set = settings(vec![]);
    let network = Network::with_lookup(&set, Told(Arc::default()));
    let server = Server::start(vec![ok("x")]).await;
    let client = Client::within(&network, &set.exchange, "test/1.0").unwrap();
    let url = Url::parse(&format!("http://two.example:{}/", server.port)).unwrap();
    let exchanged = within(client.exchange(TestPermit::new(), &Request::get(url))).await;
    assert_eq!(exchanged.result.unwrap().body, "x");
}

#[actix_rt::test]
async fn private_addresses_are_denied_by_name_and_in_every_notation() {
    let mut set = settings(vec![("a", egress("socks5h", 9, PASSWORD))]);
    set.exchange.deny_private_addresses = true;
    let network = Network::with_lookup(&set, Told(Arc::default()));
    let client = Client::within(&network, &set.exchange, "test/1.0").unwrap();
    let server = Server::start(vec![ok("x")]).await;
    for host in [
        "private.example",
        "127.1",
        "0x7f000001",
        "2130706433",
        "[::ffff:127.0.0.1]",
        "localhost",
    ] {
        let url = Url::parse(&format!("http://{host}:{}/", server.port)).unwrap();
        let exchanged =
            within(client.exchange(TestPermit::new(), &Request::get(url.clone()))).await;
        let error = exchanged.result.unwrap_err();
        assert!(
            matches!(error.fault, Fault::Denied { .. }),
            "{host}: {error}"
        );
        assert_eq!(error.outcome(), Outcome::Denied);
        if host != "localhost" && host != "private.example" {
            // Not through a proxy either.
            let permit = Through(TestPermit::new(), network.take("a").unwrap());
            let error = within(client.exchange(permit, &Request::get(url)))
                .await
                .result
                .unwrap_err();
            assert!(
                matches!(error.fault, Fault::Denied { .. }),
                "{host}: {error}"
            );
        }
    }
    assert_eq!(server.connections(), 0);
}
