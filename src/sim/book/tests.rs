use super::*;
use crate::sim::knobs::{EndpointKnobs, Pick};
use crate::sim::limits::Limit;

const NOW: Duration = Duration::ZERO;

fn book(knobs: &Knobs) -> Book {
    let mut book = Book::new(100);
    book.add_site("s", &["list", "item"], knobs).unwrap();
    book
}

fn begin(book: &mut Book, class: Option<usize>, target: &str) -> (Visit, Verdict) {
    let mut visit = book.begin(NOW, 0, class, 1, "GET", target);
    let verdict = book.decide(NOW, &mut visit, target.as_bytes(), target);
    (visit, verdict)
}

fn whole(book: &mut Book, class: Option<usize>, target: &str, end: End) -> Verdict {
    let (visit, verdict) = begin(book, class, target);
    book.end(NOW, &visit, target.as_bytes(), end);
    verdict
}

#[test]
fn peaks_are_kept_in_total_per_site_and_per_class() {
    let mut book = book(&Knobs::default());
    book.add_site("t", &["x"], &Knobs::default()).unwrap();
    let (a, _) = begin(&mut book, Some(0), "/a");
    let (b, _) = begin(&mut book, Some(1), "/b");
    let other = book.begin(NOW, 1, Some(0), 2, "GET", "/");
    for (visit, target) in [(a, "/a"), (b, "/b"), (other, "/")] {
        book.end(NOW, &visit, target.as_bytes(), End::Written(200));
    }
    let counts = book.counts();
    assert_eq!((counts.peak_in_flight, counts.in_flight), (3, 0));
    assert_eq!(counts.sites["s"].peak_in_flight, 2);
    assert_eq!(counts.sites["s"].class("list").peak_in_flight, 1);
    assert_eq!(counts.sites["t"].peak_in_flight, 1);
}

#[test]
fn only_what_was_served_whole_and_well_is_a_duplicate() {
    let mut book = book(&Knobs::default());
    for end in [End::Cut, End::Aborted, End::Written(500)] {
        whole(&mut book, Some(0), "/a", end);
    }
    assert_eq!(book.counts().sites["s"].distinct, 0);
    whole(&mut book, Some(0), "/a", End::Written(200));
    whole(&mut book, Some(0), "/b", End::Written(200));
    assert_eq!(book.counts().duplicates(), 0);
    whole(&mut book, Some(0), "/a", End::Written(200));
    let site = &book.counts().sites["s"];
    assert_eq!((site.distinct, site.duplicates, site.repeats), (2, 1, 4));
    assert_eq!((site.requests, site.aborted), (6, 1));
    assert_eq!(site.by_status[&200], 3);
}

#[test]
fn robots_txt_is_counted_apart() {
    let knobs = Knobs {
        limits: vec![Limit::Concurrency { max: 1 }],
        faults: vec![Fault {
            kind: FaultKind::Reset,
            pick: Pick::Attempts { share: 1.0 },
        }],
        ..Knobs::default()
    };
    let mut book = book(&knobs);
    let (_held, _) = begin(&mut book, Some(0), "/a");
    for _ in 0..2 {
        let verdict = whole(&mut book, None, "/robots.txt", End::Written(200));
        assert!(matches!(verdict, Verdict::Serve { fault: None, .. }));
    }
    let counts = book.counts();
    let site = &counts.sites["s"];
    assert_eq!((site.requests, site.robots, site.duplicates), (1, 2, 0));
    assert_eq!(counts.peak_in_flight, 2, "it is in flight as any other");
}

#[test]
fn a_concurrency_limit_is_free_again_when_a_request_ends() {
    let knobs = Knobs {
        limits: vec![Limit::Concurrency { max: 1 }],
        ..Knobs::default()
    };
    let mut book = book(&knobs);
    let (held, _) = begin(&mut book, Some(0), "/a");
    let verdict = whole(&mut book, Some(1), "/b", End::Written(429));
    assert!(matches!(verdict, Verdict::Refuse { .. }));
    book.end(NOW, &held, b"/a", End::Written(200));
    let verdict = whole(&mut book, Some(1), "/b", End::Written(200));
    assert!(matches!(verdict, Verdict::Serve { .. }));
    let log = book.log();
    let refused: Vec<bool> = log.iter().map(|entry| entry.refused).collect();
    assert_eq!(refused, [false, true, false]);
    assert_eq!(log[1].in_flight, 2);
}

#[test]
fn knobs_of_a_class_stand_in_for_those_of_the_site() {
    let mut knobs = Knobs {
        latency: Latency::Fixed(Duration::from_secs(1)),
        faults: vec![Fault {
            kind: FaultKind::Status(500),
            pick: Pick::Arrivals(2..3),
        }],
        ..Knobs::default()
    };
    let own = EndpointKnobs {
        latency: Some(Latency::default()),
        faults: Some(Vec::new()),
        ..EndpointKnobs::default()
    };
    knobs.endpoints.insert("item".to_owned(), own);
    let mut book = book(&knobs);
    for (target, failed) in [("/1", false), ("/2", true), ("/3", false)] {
        match whole(&mut book, Some(0), target, End::Written(200)) {
            Verdict::Serve { latency, fault } => {
                assert_eq!(latency.as_secs(), 1);
                assert_eq!(fault.is_some(), failed, "{target}");
            }
            Verdict::Refuse { .. } => panic!("refused"),
        }
    }
    let verdict = whole(&mut book, Some(1), "/x", End::Written(200));
    assert!(matches!(verdict, Verdict::Serve { latency, fault: None } if latency.is_zero()));
}

#[test]
fn names_are_distinct_and_known() {
    let mut book = book(&Knobs::default());
    let twice = book.add_site("s", &["x"], &Knobs::default());
    assert_eq!(twice, Err(KnobError::Names("s".to_owned())));
    let unknown = book.set_knobs("u", &Knobs::default());
    assert_eq!(unknown, Err(KnobError::Site("u".to_owned())));
}
