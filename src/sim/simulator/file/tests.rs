use super::*;
use crate::sim::{Ban, Limit};

const S: fn(u64) -> Duration = Duration::from_secs;

fn problems(text: &str) -> String {
    read("x.toml", text).unwrap_err().to_string()
}

#[test]
fn nothing_said_is_the_usual_scenario() {
    let scenario = read("x.toml", "").expect("empty is enough");
    let usual = Scenario {
        name: "x.toml".to_owned(),
        ..Scenario::default()
    };
    assert_eq!(scenario, usual);
}

#[test]
fn everything_can_be_said() {
    let text = r#"
        about = "all of it"
        lasts = "4min"
        wire = "5ms"
        timeout = "3s"
        warm_up = "10s"
        strangers = 2.5
        max_concurrency_num = 16

        [origin]
        limits = { kind = "at_once", max = 20 }
        fields = "x-epoch"
        ban = { refusals = 30, within = "1min", lasts = "2min" }
        refusal = { soft = true, retry_after = "date", after = "1ms" }
        service = { time = "15ms", random = "5ms", workers = 9, other = { share = 0.5, time = "450ms" } }
        faults = [{ kind = "error", share = 0.02 }, { kind = "slow", share = 0.1, factor = 4 }]

        [limits]
        mode = "fixed"
        rate = "5/s"

        [[endpoints]]
        origin = [{ kind = "bucket", per_second = 50, burst = 5 }]
        limits = { max_concurrency_num = 2 }

        [[endpoints]]
        origin = { kind = "sliding", max = 30, window = "1s", count_refused = true }

        [[changes]]
        at = "1min"
        endpoints = [[{ kind = "fixed", max = 100, window = "10s" }], []]

        [[changes]]
        at = "2min"
        limits = []

        [clients]
        count = 3
        tasks = 400
        dropped = 0.1
        restarts = ["40s", "80s"]
    "#;
    let scenario = read("x.toml", text).expect("good");
    let sliding = Limit::Sliding {
        max: 30,
        window: S(1),
        count_refused: true,
    };
    let fixed = Limit::Fixed {
        max: 100,
        window: S(10),
        phase: Duration::ZERO,
    };
    assert_eq!(scenario.origin.limits, [Limit::Concurrency { max: 20 }]);
    assert_eq!(scenario.origin.endpoints[1], [sliding]);
    assert_eq!(scenario.origin.fields, Fields::Legacy(Reset::Epoch));
    assert_eq!(scenario.origin.service.workers, Some(9));
    assert_eq!(scenario.origin.troubles[1].what, Mishap::Slow(4.0));
    let ban = Ban {
        refusals: 30,
        within: S(60),
        lasts: S(120),
    };
    assert_eq!(scenario.origin.ban, Some(ban));
    assert!(scenario.origin.refusal.soft);
    assert_eq!(scenario.changes[0].limits, scenario.origin.limits, "stays");
    assert_eq!(scenario.changes[0].endpoints, [vec![fixed], vec![]]);
    assert!(scenario.changes[1].limits.is_empty());
    assert_eq!(scenario.changes[1].endpoints, scenario.changes[0].endpoints);
    assert_eq!((scenario.clients, scenario.demand), (3, Demand::Total(400)));
    assert_eq!(scenario.chaos.restarts, [S(40), S(80)]);
    assert_eq!(scenario.configured.max_concurrency_num, 16);
    assert_eq!(
        scenario.configured.endpoints[0].max_concurrency_num,
        Some(2)
    );
    assert_eq!(scenario.lasts, S(240));
}

#[test]
fn a_wrong_key_is_named_with_its_line_and_the_nearest() {
    let text = "lasts = \"1min\"\n[origin]\nlimts = []\n[clints]\ncount = 2\n";
    let told = problems(text);
    assert!(told.contains("x.toml:3: `origin.limts`"), "{told}");
    assert!(told.contains("did you mean `limits`?"), "{told}");
    assert!(told.contains("x.toml:4: `clints`"), "{told}");
    assert!(told.contains("did you mean `clients`?"), "{told}");
}

#[test]
fn wrong_values_are_told_all_at_once() {
    let text = "lasts = 5\nwire = \"long\"\n[origin]\nlimits = [{ kind = \"buket\" }]\n\
                fields = \"xml\"\n[clients]\ncount = 0\ntasks = 5\nper_second = 2\n";
    let told = problems(text);
    for part in [
        "x.toml:1: `lasts` must be text",
        "x.toml:2: `wire` must be a time with its unit",
        "x.toml:4: `origin.limits.kind` cannot be `buket`; did you mean `bucket`?",
        "x.toml:5: `origin.fields` cannot be `xml`",
        "x.toml:7: `clients.count` must be a whole number from 1 to 100, not 0",
        "give `tasks` or `per_second`, not both",
    ] {
        assert!(told.contains(part), "{part}\n---\n{told}");
    }
}

#[test]
fn changes_are_in_order_and_for_all_endpoints() {
    let text = "[[endpoints]]\n[[endpoints]]\n[[changes]]\nat = \"20s\"\nendpoints = [[]]\n\
                [[changes]]\nat = \"10s\"\n";
    let told = problems(text);
    assert!(
        told.contains("x.toml:5: `changes.endpoints` must have"),
        "{told}"
    );
    assert!(
        told.contains("x.toml:7: changes must be in order"),
        "{told}"
    );
}

#[test]
fn what_is_no_toml_has_a_line() {
    assert!(problems("lasts = \n").contains("x.toml:1"));
}
