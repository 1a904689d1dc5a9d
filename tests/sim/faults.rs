use std::io::ErrorKind;

use crawler_node::sim::{EndpointKnobs, Fault, FaultKind, Knobs, Pick, ROBOTS};

use super::client::{Client, DEADLINE};
use super::echo;

fn first_attempt(kind: FaultKind) -> Knobs {
    let pick = Pick::Target {
        prefix: "/a".to_owned(),
        attempts: 1,
    };
    Knobs {
        faults: vec![Fault { kind, pick }],
        ..Knobs::default()
    }
}

#[test]
fn an_error_status_befalls_the_attempts_it_should() {
    let server = echo(first_attempt(FaultKind::Status(500)));
    let mut client = Client::open(server.addr());
    for (target, status) in [("/a", 500), ("/b", 200), ("/a", 200), ("/a2", 500)] {
        assert_eq!(client.get(target).status, status, "{target}");
    }
    let site = &server.stop().sites["echo"];
    assert_eq!((site.faults, site.duplicates, site.repeats), (2, 0, 1));
}

#[test]
fn a_reset_is_a_reset() {
    let server = echo(first_attempt(FaultKind::Reset));
    let mut client = Client::open(server.addr());
    client.ask("GET", "/a");
    assert_eq!(
        client.rest().unwrap_err().kind(),
        ErrorKind::ConnectionReset
    );
    assert_eq!(Client::open(server.addr()).get("/a").status, 200);
    assert_eq!(server.log()[0].status, None);
}

#[test]
fn a_truncated_body_ends_in_its_middle() {
    let server = echo(first_attempt(FaultKind::Truncate));
    let mut client = Client::open(server.addr());
    client.ask("GET", "/a?234");
    assert_eq!(client.head().unwrap().header("content-length"), Some("11"));
    assert_eq!(client.rest().unwrap(), b"GET /");
    assert_eq!(
        Client::open(server.addr()).get("/a?234").text(),
        "GET /a?234 "
    );
    assert_eq!(server.stop().sites["echo"].duplicates, 0);
}

#[test]
fn a_hanging_request_is_in_flight_until_its_client_goes() {
    let server = echo(first_attempt(FaultKind::Hang));
    let mut client = Client::open(server.addr());
    client.ask("GET", "/a");
    assert!(server.wait_for(DEADLINE, |counts| counts.sites["echo"].faults == 1));
    assert_eq!(server.counts().in_flight, 1);
    client.close();
    assert!(server.wait_for(DEADLINE, |counts| counts.in_flight == 0));
}

#[test]
fn an_answer_can_be_replaced() {
    let kind = FaultKind::Replace {
        content_type: "text/html".to_owned(),
        body: String::new(),
    };
    let server = echo(first_attempt(kind));
    let mut client = Client::open(server.addr());
    let answer = client.get("/a");
    assert_eq!((answer.status, answer.text()), (200, ""));
    assert_eq!(answer.header("content-type"), Some("text/html"));
}

#[test]
fn robots_txt_fails_only_where_it_is_asked_to() {
    let always = Fault {
        kind: FaultKind::Status(503),
        pick: Pick::Attempts { share: 1.0 },
    };
    let mut knobs = Knobs {
        faults: vec![always.clone()],
        ..Knobs::default()
    };
    let server = echo(knobs.clone());
    let mut client = Client::open(server.addr());
    assert_eq!(client.get("/a").status, 503);
    assert_eq!(client.get("/robots.txt").status, 404);
    let own = EndpointKnobs {
        faults: Some(vec![always]),
        ..EndpointKnobs::default()
    };
    knobs.endpoints.insert(ROBOTS.to_owned(), own);
    server.set_knobs("echo", &knobs).unwrap();
    assert_eq!(client.get("/robots.txt").status, 503);
}
