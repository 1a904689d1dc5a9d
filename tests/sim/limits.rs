use std::time::{Duration, Instant, SystemTime};

use crawler_node::sim::{
    Ban, EndpointKnobs, KnobError, Knobs, Limit, Refusal, RetryAfter, Server, SimConfig, SiteSpec,
};

use super::client::{Client, DEADLINE};
use super::{Echo, echo, held};

/// One request, and none again for as long as a test can take.
fn once() -> Limit {
    Limit::Fixed {
        max: 1,
        window: Duration::from_secs(3_600),
        phase: Duration::ZERO,
    }
}

fn refusing(refusal: Refusal) -> Knobs {
    Knobs {
        limits: vec![once()],
        refusal,
        ..Knobs::default()
    }
}

#[test]
fn a_site_refuses_by_status_with_and_without_a_wait() {
    for (status, retry_after) in [
        (429, RetryAfter::Absent),
        (429, RetryAfter::Seconds),
        (503, RetryAfter::Date),
        (403, RetryAfter::Text("soon".to_owned())),
    ] {
        let refusal = Refusal::status(status).retry_after(retry_after.clone());
        let server = echo(refusing(refusal));
        let mut client = Client::open(server.addr());
        assert_eq!(client.get("/a").status, 200);
        let answer = client.get("/a");
        assert_eq!(answer.status, status);
        let told = answer.header("retry-after");
        match retry_after {
            RetryAfter::Absent => assert_eq!(told, None),
            RetryAfter::Text(text) => assert_eq!(told, Some(text.as_str())),
            RetryAfter::Seconds => {
                let seconds: u64 = told.unwrap().parse().unwrap();
                assert!((3_500..=3_600).contains(&seconds), "{seconds}");
            }
            RetryAfter::Date => {
                let at = httpdate::parse_http_date(told.unwrap()).unwrap();
                let wait = at.duration_since(SystemTime::now()).unwrap().as_secs();
                assert!((3_500..=3_601).contains(&wait), "{wait}");
            }
        }
        let site = &server.stop().sites["echo"];
        assert_eq!((site.requests, site.refused, site.banned), (2, 1, 0));
        assert_eq!(
            (site.distinct, site.duplicates),
            (1, 0),
            "a refusal serves nothing"
        );
        assert_eq!(site.by_status[&status], 1);
    }
}

#[test]
fn a_refusal_can_hide_in_a_good_status() {
    let server = echo(refusing(Refusal::in_body(300_013)));
    let mut client = Client::open(server.addr());
    client.get("/a");
    let answer = client.get("/b");
    assert_eq!(
        (answer.status, answer.json()["code"].as_i64()),
        (200, Some(300_013))
    );
    let counts = server.stop();
    assert_eq!((counts.refused(), counts.sites["echo"].distinct), (1, 1));
    assert_eq!(counts.sites["echo"].class("b").served, 0);
}

#[test]
fn concurrency_is_limited_by_what_is_in_flight() {
    let server = echo(Knobs {
        limits: vec![Limit::Concurrency { max: 2 }],
        ..held()
    });
    let mut clients: Vec<Client> = (0..3).map(|_| Client::open(server.addr())).collect();
    clients[0].ask("GET", "/a");
    clients[1].ask("GET", "/b");
    assert!(server.wait_for(DEADLINE, |counts| counts.in_flight == 2));
    assert_eq!(clients[2].get("/a").status, 429);
    clients.remove(0).close();
    assert!(server.wait_for(DEADLINE, |counts| counts.in_flight == 1));
    clients[1].ask("GET", "/a");
    assert!(server.wait_for(DEADLINE, |counts| counts.in_flight == 2));
    let counts = server.stop();
    assert_eq!(
        (counts.refused(), counts.peak_in_flight),
        (1, 3),
        "a refusal is in flight as well"
    );
}

#[test]
fn a_bucket_refills_and_a_class_has_limits_of_its_own() {
    let mut knobs = Knobs::default();
    let own = EndpointKnobs {
        limits: vec![once()],
        refusal: Some(Refusal::status(503)),
        ..EndpointKnobs::default()
    };
    knobs.endpoints.insert("b".to_owned(), own);
    let server = echo(knobs.clone());
    let mut client = Client::open(server.addr());
    assert_eq!(client.get("/b").status, 200);
    assert_eq!(client.get("/b").status, 503);
    assert_eq!(client.get("/a").status, 200);

    knobs.limits = vec![Limit::Bucket {
        per_second: 20.0,
        burst: 1,
    }];
    server.set_knobs("echo", &knobs).unwrap();
    assert_eq!(client.get("/b").status, 503, "what stays is remembered");
    let mut times = Vec::new();
    while times.len() < 3 {
        match client.get("/a").status {
            200 => times.push(Instant::now()),
            status => assert_eq!(status, 429),
        }
    }
    // The first token was there, the others took 50 ms each.
    assert!(times[2] - times[0] >= Duration::from_millis(90));
    assert!(server.stop().refused() > 1);
}

#[test]
fn too_many_refusals_bring_a_ban() {
    let server = echo(Knobs {
        ban: Some(Ban {
            refusals: 2,
            within: Duration::from_secs(600),
            lasts: Duration::from_secs(600),
        }),
        ..refusing(Refusal::default())
    });
    let mut client = Client::open(server.addr());
    for status in [200, 429, 429] {
        assert_eq!(client.get("/a").status, status);
    }
    // The limit is gone, the ban is not.
    let knobs = Knobs {
        limits: Vec::new(),
        ban: Some(Ban {
            refusals: 2,
            within: Duration::from_secs(600),
            lasts: Duration::from_secs(600),
        }),
        ..Knobs::default()
    };
    server.set_knobs("echo", &knobs).unwrap();
    assert_eq!(client.get("/a").status, 429);
    assert_eq!(
        client.get("/robots.txt").status,
        404,
        "robots.txt is never banned"
    );
    server.set_knobs("echo", &Knobs::default()).unwrap();
    assert_eq!(client.get("/a").status, 200);
    let site = &server.stop().sites["echo"];
    assert_eq!((site.refused, site.bans, site.banned), (3, 1, 1));
}

#[test]
fn knobs_that_make_no_sense_are_refused() {
    let start = |sites| {
        Server::start(SimConfig {
            sites,
            log_limit: 0,
        })
        .unwrap_err()
    };
    let wrong = Knobs {
        limits: vec![Limit::Concurrency { max: 0 }],
        ..Knobs::default()
    };
    let error = start(vec![SiteSpec::new("x", Echo).knobs(wrong.clone())]);
    assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
    assert!(error.to_string().contains("limits[0]"), "{error}");
    start(vec![SiteSpec::new("x", Echo), SiteSpec::new("x", Echo)]);
    start(Vec::new());

    let server = echo(Knobs::default());
    assert!(matches!(
        server.set_knobs("echo", &wrong),
        Err(KnobError::Value { .. })
    ));
    assert_eq!(Client::open(server.addr()).get("/a").status, 200);
}
