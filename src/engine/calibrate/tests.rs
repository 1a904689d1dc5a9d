use super::*;
use crate::calibrate::Rules;
use crate::model::{Job, TaskKey};
use crate::site::CrawlSite;

fn limits(cap: Option<u32>, rate: Option<&str>) -> LimitSettings {
    LimitSettings {
        max_concurrency_num: cap,
        rate: rate.map(|rate| rate.parse().unwrap()),
        ..LimitSettings::default()
    }
}

fn site(limits: LimitSettings) -> Retune {
    Retune {
        target: Target::Site("s".into()),
        limits,
    }
}

fn endpoint(name: &str, limits: LimitSettings) -> Retune {
    Retune {
        target: Target::Endpoint("s".into(), name.into()),
        limits,
    }
}

fn task(endpoint: &str, lane: &str) -> NewTask {
    NewTask {
        endpoint: endpoint.into(),
        params: serde_json::Map::new(),
        key: TaskKey::of("s", endpoint, lane),
        lane: lane.into(),
        priority: 0,
        depth: 0,
        list: false,
    }
}

#[test]
fn lanes_are_fixed_and_a_rate_only_lowers() {
    let rate = |set: Option<&str>, wanted: &str| {
        let all = vec![site(limits(None, set)), endpoint("e", limits(None, None))];
        let all = fixed(all, Some(wanted.parse().unwrap()));
        assert!(
            all.iter()
                .all(|retune| retune.limits.mode == Some(LimitMode::Fixed))
        );
        assert_eq!(all[1].limits.rate, None);
        all[0].limits.rate.unwrap().to_string()
    };
    assert_eq!(rate(None, "5/s"), "5/s");
    assert_eq!(rate(Some("10/s"), "5/s"), "5/s");
    assert_eq!(rate(Some("30/min"), "5/s"), "30/min");
}

#[test]
fn caps_of_hosts_add_up_and_those_of_a_site_do_not() {
    let caps = [
        site(limits(Some(3), None)),
        endpoint("page", limits(Some(2), None)),
    ];
    let tasks = [task("page", "a:80"), task("page", "b:80")];
    assert_eq!(reachable(&caps, true, &tasks), Some(4));
    assert_eq!(reachable(&caps[..1], true, &tasks), Some(6));
    // Follow-ups may reach other endpoints of the site.
    assert_eq!(reachable(&caps, false, &tasks), Some(3));
    assert_eq!(reachable(&caps[1..], false, &tasks), None);
    assert_eq!(reachable(&[], true, &tasks), None);
}

#[test]
fn levels_end_at_the_smallest_cap_and_none_above_is_taken() {
    let rules = Job::new(crate::model::Mode::Crawl).crawl;
    let web: Arc<dyn Site> = Arc::new(CrawlSite::new("s", &rules, &[], None).unwrap());
    let trial = |levels: Option<Vec<u32>>| Trial {
        job: Job::new(crate::model::Mode::Crawl),
        levels,
        rate: None,
        rules: Rules::default(),
    };
    let tasks = [task("page", "a:80")];
    let of = |wanted, global, cap| {
        levels(
            &trial(wanted),
            global,
            &[site(limits(cap, None))],
            &web,
            &tasks,
        )
        .map_err(|error| error.to_string())
    };
    assert_eq!(of(None, 8, None), Ok(vec![1, 2, 4, 8]));
    assert_eq!(of(None, 8, Some(3)), Ok(vec![1, 2, 3]));
    assert_eq!(of(Some(vec![2, 3]), 8, Some(3)), Ok(vec![2, 3]));
    assert_eq!(
        of(Some(vec![2, 4]), 8, Some(3)),
        Err("level 4 is above the caps set for site s, which allow 3".to_owned())
    );
    assert_eq!(
        of(Some(vec![9]), 8, None),
        Err("level 9 is above max_concurrency_num, which is 8".to_owned())
    );
    assert_eq!(
        of(Some(Vec::new()), 8, None),
        Err("no levels; allowed: one or more, each from 1 to 10000".to_owned())
    );
}
