use std::time::Duration;

use crawler_node::sim::{BenchSite, Knobs, Latency, Server, SimConfig, SiteSpec};

use super::client::{Client, DEADLINE};
use super::{Echo, echo, held};

#[test]
fn a_connection_is_kept_and_requests_are_counted() {
    let server = echo(Knobs::default());
    let mut client = Client::open(server.addr());
    assert_eq!(client.get("/a?x=1").text(), "GET /a?x=1 ");
    assert_eq!(client.get("/b").text(), "GET /b ");
    assert_eq!(client.get("/a?x=1").status, 200);
    assert_eq!(client.get("/robots.txt").status, 404);
    // The client may have the last byte before the server has noted that.
    assert!(server.wait_for(DEADLINE, |counts| counts.in_flight == 0));
    let log = server.log();
    let targets: Vec<&str> = log.iter().map(|entry| entry.target.as_str()).collect();
    assert_eq!(targets, ["/a?x=1", "/b", "/a?x=1", "/robots.txt"]);
    assert!(
        log.iter()
            .all(|entry| entry.connection == 1 && entry.in_flight == 1)
    );
    assert!(
        log.iter()
            .all(|entry| entry.ended.is_some_and(|ended| ended >= entry.at))
    );
    let counts = server.stop();
    let site = &counts.sites["echo"];
    assert_eq!((site.requests, site.robots), (3, 1));
    assert_eq!((site.distinct, site.duplicates, site.repeats), (2, 1, 1));
    assert_eq!(site.class("a").requests, 2);
    assert_eq!(site.by_status[&200], 3);
    assert_eq!((counts.connections, counts.peak_in_flight), (1, 1));
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let server = echo(Knobs {
        latency: Latency::Between(Duration::ZERO, Duration::from_millis(5)),
        ..Knobs::default()
    });
    let mut client = Client::open(server.addr());
    for n in 0..20 {
        client.ask("GET", &format!("/a{n}"));
    }
    for n in 0..20 {
        assert_eq!(client.answer().unwrap().text(), format!("GET /a{n} "));
    }
    assert_eq!(
        server.stop().peak_in_flight,
        1,
        "one connection, one at a time"
    );
}

#[test]
fn bodies_come_with_a_length_or_in_chunks() {
    let server = echo(Knobs::default());
    let mut client = Client::open(server.addr());
    client.send("POST /a HTTP/1.1\r\nContent-Length: 5\r\n\r\nhel");
    client.send("lo");
    assert_eq!(client.answer().unwrap().text(), "POST /a hello");
    client.send("POST /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n");
    client.send("2\r\nlo\r\n0\r\n\r\n");
    assert_eq!(client.answer().unwrap().text(), "POST /a hello");
    client.send("POST /a HTTP/1.1\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n");
    assert_eq!(client.head().unwrap().status, 100);
    client.send("ok");
    assert_eq!(client.answer().unwrap().text(), "POST /a ok");
    let site = &server.stop().sites["echo"];
    assert_eq!(
        (site.distinct, site.duplicates),
        (2, 1),
        "the body is part of the resource"
    );
}

#[test]
fn head_and_other_methods() {
    let server = echo(Knobs::default());
    let mut client = Client::open(server.addr());
    client.ask("HEAD", "/abc");
    let head = client.head().unwrap();
    assert_eq!(head.header("content-length"), Some("10"));
    client.ask("DELETE", "/abc");
    assert_eq!(
        client.answer().unwrap().status,
        405,
        "no body was in between"
    );
}

#[test]
fn the_connection_ends_where_client_or_bad_request_say_so() {
    let server = echo(Knobs::default());
    let mut client = Client::open(server.addr());
    client.send("GET /a HTTP/1.1\r\nConnection: close\r\n\r\n");
    let answer = client.answer().unwrap();
    assert_eq!(answer.header("connection"), Some("close"));
    assert_eq!(client.rest().unwrap(), b"");

    let mut client = Client::open(server.addr());
    client.send("nonsense\r\n\r\n");
    assert_eq!(client.answer().unwrap().status, 400);
    assert_eq!(client.rest().unwrap(), b"");
    assert!(server.wait_for(DEADLINE, |counts| counts.open_connections == 0));
    assert_eq!(server.stop().sites["echo"].malformed, 1);
}

#[test]
fn the_peak_is_what_was_open_at_once_over_all_sites() {
    let sites = vec![
        SiteSpec::new("one", Echo).knobs(held()),
        SiteSpec::new("two", Echo).knobs(held()),
    ];
    let server = Server::start(SimConfig {
        sites,
        log_limit: 0,
    })
    .unwrap();
    let clients: Vec<Client> = ["one", "one", "one", "two", "two"]
        .iter()
        .zip(["/a1", "/a2", "/b", "/a1", "/b"])
        .map(|(site, target)| {
            let mut client = Client::open(server.addr_of(site).unwrap());
            client.ask("GET", target);
            client
        })
        .collect();
    assert!(server.wait_for(DEADLINE, |counts| counts.in_flight == 5));
    // A client that goes away is in flight no more, however long the latency.
    clients.into_iter().for_each(Client::close);
    assert!(server.wait_for(DEADLINE, |counts| counts.in_flight == 0));
    let counts = server.stop();
    assert_eq!((counts.peak_in_flight, counts.peak_connections), (5, 5));
    let one = &counts.sites["one"];
    assert_eq!(
        (one.peak_in_flight, counts.sites["two"].peak_in_flight),
        (3, 2)
    );
    assert_eq!(one.class("a").peak_in_flight, 2);
    assert_eq!((one.aborted, one.distinct), (3, 0));
}

#[test]
fn stopping_ends_what_is_held() {
    let server = echo(held());
    let mut client = Client::open(server.addr());
    client.ask("GET", "/a");
    assert!(server.wait_for(DEADLINE, |counts| counts.in_flight == 1));
    let counts = server.stop();
    assert_eq!((counts.in_flight, counts.open_connections), (0, 0));
    assert!(client.answer().is_err());
}

#[test]
fn latency_is_spent_before_the_answer() {
    let latency = Duration::from_millis(60);
    let server = echo(Knobs {
        latency: Latency::Fixed(latency),
        ..Knobs::default()
    });
    Client::open(server.addr()).get("/a");
    assert!(server.wait_for(DEADLINE, |counts| counts.in_flight == 0));
    let log = server.log();
    assert!(log[0].ended.unwrap() - log[0].at >= latency);
}

#[test]
fn the_bench_site_serves_pages_of_its_size() {
    let site = SiteSpec::new("bench", BenchSite::new(50, 8_192, 10));
    let server = Server::start(SimConfig::one(site)).unwrap();
    let mut client = Client::open(server.addr());
    assert_eq!(client.get("/").body.len(), 8_192);
    assert_eq!(client.get("/p/49").body.len(), 8_192);
    assert_eq!(client.get("/p/50").status, 404);
    assert_eq!(client.get("/robots.txt").status, 200);
}
