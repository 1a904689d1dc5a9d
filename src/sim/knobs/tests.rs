use super::*;

fn attempt(resource: &str, attempt: u32) -> Attempt<'_> {
    Attempt {
        resource: resource.as_bytes(),
        target: resource,
        attempt,
        arrival: 1,
    }
}

#[test]
fn a_picked_resource_fails_its_first_attempts_only() {
    let pick = Pick::Resources {
        share: 1.0 / 7.0,
        attempts: 2,
    };
    let picked: Vec<String> = (0..700)
        .map(|n| format!("/item/{n}"))
        .filter(|name| pick.takes(3, 0, attempt(name, 1)))
        .collect();
    assert!((60..140).contains(&picked.len()), "{}", picked.len());
    assert!(picked.iter().all(|name| pick.takes(3, 0, attempt(name, 2))));
    assert!(!picked.iter().any(|name| pick.takes(3, 0, attempt(name, 3))));
}

#[test]
fn attempts_are_drawn_each_by_itself() {
    let pick = Pick::Attempts { share: 0.5 };
    let draws: Vec<bool> = (1..=20)
        .map(|n| pick.takes(3, 0, attempt("/", n)))
        .collect();
    assert!(draws.contains(&true) && draws.contains(&false));
}

#[test]
fn targets_and_arrivals_are_picked_exactly() {
    let target = Pick::Target {
        prefix: "/item/7".to_owned(),
        attempts: u32::MAX,
    };
    assert!(target.takes(0, 0, attempt("/item/7?token=x", 99)));
    assert!(!target.takes(0, 0, attempt("/item/8", 1)));
    let arrivals = Pick::Arrivals(7..10);
    let hits = (1..20)
        .filter(|arrival| {
            let arrival = *arrival;
            arrivals.takes(
                0,
                0,
                Attempt {
                    arrival,
                    ..attempt("/", 1)
                },
            )
        })
        .count();
    assert_eq!(hits, 3);
}

#[test]
fn latency_stays_between_its_bounds() {
    let (least, most) = (Duration::from_millis(10), Duration::from_millis(30));
    let latency = Latency::Between(least, most);
    let picks: Vec<Duration> = (0..50).map(|n| latency.pick(1, b"x", n)).collect();
    assert!(picks.iter().all(|pick| (least..=most).contains(pick)));
    assert!(picks.iter().any(|pick| pick != &picks[0]));
    assert_eq!(picks[3], latency.pick(1, b"x", 3));
}

#[test]
fn a_tail_has_its_mean_beyond_the_least() {
    let latency = Latency::Tail(Duration::from_millis(80), Duration::from_millis(20));
    let picks: Vec<Duration> = (0..2000).map(|n| latency.pick(1, b"x", n)).collect();
    assert!(picks.iter().all(|pick| *pick >= Duration::from_millis(80)));
    let mean = picks.iter().sum::<Duration>() / 2000;
    let (least, most) = (Duration::from_millis(98), Duration::from_millis(102));
    assert!((least..most).contains(&mean), "{mean:?}");
}

#[test]
fn wrong_knobs_are_named() {
    let mut knobs = Knobs::default();
    knobs
        .endpoints
        .insert("serch".to_owned(), EndpointKnobs::default());
    let text = knobs.check("api", &["search"]).unwrap_err().to_string();
    assert!(
        text.contains("serch") && text.contains("search, robots"),
        "{text}"
    );

    let knobs = Knobs {
        faults: vec![Fault {
            kind: FaultKind::Reset,
            pick: Pick::Attempts { share: 1.5 },
        }],
        ..Knobs::default()
    };
    let text = knobs.check("api", &[]).unwrap_err().to_string();
    assert!(
        text.contains("faults[0]") && text.contains("between 0 and 1"),
        "{text}"
    );

    let step = Step {
        when: crate::sim::schedule::When::Admitted(0),
        limits: vec![Limit::Concurrency { max: 0 }],
    };
    let knobs = Knobs {
        steps: vec![step],
        ..Knobs::default()
    };
    let text = knobs.check("api", &[]).unwrap_err().to_string();
    assert!(text.contains("steps[0].limits[0]: max must be"), "{text}");
}
