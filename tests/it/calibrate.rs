//! `calibrate` against servers whose limits it is not told.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use crawler_node::sim::{
    ApiSite, Ban, EndpointKnobs, HtmlSite, Knobs, Latency, Limit, Refusal, RetryAfter, Server,
    SimConfig, SiteSpec,
};
use serde_json::Value;

use crate::support::{DEADLINE, Ran, binary, run};

const MS: Duration = Duration::from_millis(1);

/// A site that takes 20 ms for an answer, and a little more.
fn knobs(limits: Vec<Limit>) -> Knobs {
    Knobs {
        latency: Latency::Fixed(20 * MS),
        limits,
        ..Knobs::default()
    }
}

fn start(knobs: Knobs) -> (Server, String) {
    let site = SiteSpec::new("web", HtmlSite::new(4, 12)).knobs(knobs);
    let server = Server::start(SimConfig::one(site)).expect("the built-in site");
    let url = format!("{}/", server.base_url("web").expect("the site"));
    (server, url)
}

/// `calibrate` with short levels; pauses are cut short.
fn calibrate(dir: &Path) -> Command {
    calibrate_for(dir, "1.5")
}

fn calibrate_for(dir: &Path, seconds: &str) -> Command {
    let mut command = binary(dir);
    command
        .args(["calibrate", "--seconds", seconds, "--warmup", "10%"])
        .args(["--set", "test_time_scale=0.05"]);
    command
}

fn json(ran: &Ran) -> Value {
    serde_json::from_str(&ran.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}\n{}", ran.stdout, ran.stderr))
}

#[test]
fn a_limit_on_concurrency_is_found() {
    let (server, url) = start(knobs(vec![Limit::Concurrency { max: 6 }]));
    let dir = tempfile::tempdir().expect("a directory");
    let ran = run(calibrate(dir.path()).args(["--url", &url, "--levels", "1,2,4,8", "--json"]));
    assert_eq!(ran.code, Some(0), "{}\n{}", ran.stdout, ran.stderr);
    let found = json(&ran);
    assert_eq!(found["verdict"]["result"], "found", "{found}");
    assert_eq!(found["verdict"]["proved_by"], 4, "{found}");
    assert_eq!(found["verdict"]["above"], 8, "{found}");
    // On a machine that has no time for four at once, it says that they bring no more.
    let knee = &found["verdict"]["knee"];
    assert!(
        found["verdict"]["level"] == 4 || knee["level"] == 4,
        "{found}"
    );
    assert_eq!(found["end"], "above");
    assert_eq!(found["levels"].as_array().map(Vec::len), Some(4));
    let fourth = &found["levels"][2];
    assert_eq!(
        (&fourth["refused"], &fourth["errors"]),
        (&0.into(), &0.into())
    );
    // Little's law: four in flight, at 20 ms and a little, are less than 200 a second.
    let number = |name: &str| fourth[name].as_f64().expect(name);
    assert!(
        (40.0..=201.0).contains(&number("ok_per_second")),
        "{fourth}"
    );
    assert!(number("in_flight_mean") <= 4.0 + 1e-9, "{fourth}");
    assert!(number("in_flight_deviation").abs() < 0.2, "{fourth}");
    assert!(number("latency_ms_mean") >= 20.0 && number("cpu_percent") > 0.0);
    if cfg!(target_os = "linux") {
        assert!(number("memory_bytes") > 1e6);
    }
    let counts = server.stop();
    assert!(counts.peak_in_flight <= 8, "{}", counts.peak_in_flight);
}

#[test]
fn a_limit_per_time_is_found_as_the_level_that_stays_below_it() {
    // 50 ms each: one at a time makes less than 20 a second, four make twice what is allowed.
    let limit = Limit::Sliding {
        max: 30,
        window: 1000 * MS,
        count_refused: false,
    };
    let (_server, url) = start(Knobs {
        latency: Latency::Fixed(50 * MS),
        ..knobs(vec![limit])
    });
    let dir = tempfile::tempdir().expect("a directory");
    let ran = run(calibrate_for(dir.path(), "3").args([
        "--url",
        &url,
        "--levels",
        "1,4",
        "--max-errors",
        "10%",
        "--json",
    ]));
    assert_eq!(ran.code, Some(0), "{}\n{}", ran.stdout, ran.stderr);
    let found = json(&ran);
    assert_eq!(found["verdict"]["level"], 1, "{found}");
    let pace = found["verdict"]["ok_per_second"].as_f64().expect("a pace");
    assert!(pace <= 30.0, "{pace}");
}

#[test]
fn a_fixed_window_of_fifty_a_second_is_kept_below() {
    let limit = Limit::Fixed {
        max: 50,
        window: Duration::from_secs(1),
        phase: Duration::ZERO,
    };
    let (_server, url) = start(Knobs {
        latency: Latency::Fixed(50 * MS),
        ..knobs(vec![limit])
    });
    let dir = tempfile::tempdir().expect("a directory");
    let ran = run(calibrate_for(dir.path(), "2.5").args([
        "--url",
        &url,
        "--levels",
        "1,2,8",
        "--max-errors",
        "10%",
        "--json",
    ]));
    assert_eq!(ran.code, Some(0), "{}\n{}", ran.stdout, ran.stderr);
    assert_eq!(json(&ran)["verdict"]["level"], 2, "{}", ran.stdout);
}

#[test]
fn without_a_limit_the_ceiling_is_picked_and_never_passed() {
    let (server, url) = start(Knobs {
        latency: Latency::Fixed(50 * MS),
        ..knobs(Vec::new())
    });
    let dir = tempfile::tempdir().expect("a directory");
    let ran = run(calibrate(dir.path()).args(["--url", &url, "--max", "8"]));
    assert_eq!(ran.code, Some(0), "{}\n{}", ran.stdout, ran.stderr);
    assert!(
        ran.stdout.contains("max_concurrency_num = 8: "),
        "{}",
        ran.stdout
    );
    for heading in ["level", "ok/s", "p95", "Little", "CPU %", "MiB"] {
        assert!(ran.stdout.contains(heading), "{}", ran.stdout);
    }
    for said in [
        "requests_at_most: 10000",
        "levels: 1, 2, 4, 8",
        "robots_txt: obeyed",
        "user_agent: crawler-node/",
    ] {
        assert!(ran.stderr.contains(said), "{said}: {}", ran.stderr);
    }
    assert!(server.stop().peak_in_flight <= 8);
}

#[test]
fn where_more_in_flight_brings_no_more_the_knee_is_said() {
    let (_server, url) = start(knobs(Vec::new()));
    let dir = tempfile::tempdir().expect("a directory");
    // The pace that is allowed is reached with two in flight.
    let ran = run(calibrate_for(dir.path(), "2").args([
        "--url",
        &url,
        "--levels",
        "2,4,8",
        "--rate",
        "30/s",
        "--max-errors",
        "10%",
        "--json",
    ]));
    assert_eq!(ran.code, Some(0), "{}\n{}", ran.stdout, ran.stderr);
    let found = json(&ran);
    assert_eq!(found["verdict"]["level"], 2, "{found}");
    assert!(found["verdict"]["knee"]["level"].is_u64(), "{found}");
    assert!(
        found["reason"]
            .as_str()
            .is_some_and(|why| why.contains("More in flight brings no more")),
        "{found}"
    );
}

#[test]
fn configured_limits_and_the_budget_are_never_exceeded() {
    let (server, url) = start(knobs(Vec::new()));
    let dir = tempfile::tempdir().expect("a directory");
    fs::create_dir(dir.path().join("config")).expect("a directory");
    fs::write(
        dir.path().join("config/local.toml"),
        "[sites.web]\nmax_concurrency_num = 3\nquota = [\"60/h\"]\n",
    )
    .expect("a file");
    let ran = run(calibrate(dir.path()).args(["--url", &url, "--json"]));
    // The quota is used up within the first levels.
    assert_eq!(ran.code, Some(4), "{}\n{}", ran.stdout, ran.stderr);
    let found = json(&ran);
    assert_eq!(found["end"], "paused");
    assert!(found["wait_ms"].as_u64().is_some_and(|wait| wait > 900_000));
    assert_eq!(found["opening"]["levels"], serde_json::json!([1, 2, 3]));
    let counts = server.stop();
    assert!(counts.requests() <= 60 && counts.peak_in_flight <= 3);

    let (server, url) = start(knobs(Vec::new()));
    let dir = tempfile::tempdir().expect("a directory");
    let ran = run(calibrate(dir.path()).args([
        "--url",
        &url,
        "--levels",
        "1,2",
        "--max-requests",
        "40",
        "--json",
    ]));
    assert_eq!(ran.code, Some(3), "{}\n{}", ran.stdout, ran.stderr);
    assert_eq!(json(&ran)["verdict"]["why"], "too_few");
    // Beside the levels: the first look.
    assert_eq!(server.stop().requests(), 41);
}

#[test]
fn a_refusal_of_this_client_ends_it_at_once() {
    let ban = Ban {
        refusals: 1,
        within: Duration::from_secs(10),
        lasts: Duration::from_secs(60),
    };
    let (server, url) = start(Knobs {
        refusal: Refusal::status(451).retry_after(RetryAfter::Seconds),
        ban: Some(ban),
        ..knobs(vec![Limit::Concurrency { max: 2 }])
    });
    let dir = tempfile::tempdir().expect("a directory");
    let ran = run(
        calibrate(dir.path()).args(["--url", &url, "--levels", "1,2,4,8", "--write", "--json"])
    );
    assert_eq!(ran.code, Some(4), "{}\n{}", ran.stdout, ran.stderr);
    let found = json(&ran);
    assert_eq!(
        (&found["end"], &found["outcome"]),
        (&"blocked".into(), &"blocked".into())
    );
    assert_eq!(found["status"], 451);
    assert!(
        found["wait_ms"].as_u64().is_some_and(|wait| wait > 0),
        "{found}"
    );
    let levels = found["levels"].as_array().expect("levels");
    assert_eq!(
        levels.len(),
        3,
        "nothing follows the level that was refused"
    );
    assert_eq!(levels[2]["complete"], false);
    // Those in flight at that moment may be refused as well, nobody after them.
    assert!(server.stop().refused() <= 4);
    assert!(!dir.path().join("config/local.toml").exists());
}

#[test]
fn a_retry_after_is_obeyed_between_levels() {
    let (server, url) = start(Knobs {
        refusal: Refusal::default().retry_after(RetryAfter::Text("1".to_owned())),
        ..knobs(vec![Limit::Concurrency { max: 3 }])
    });
    let dir = tempfile::tempdir().expect("a directory");
    let ran = run(calibrate_for(dir.path(), "0.8").args([
        "--url",
        &url,
        "--levels",
        "2,4,5",
        "--max-errors",
        "40%",
        "--json",
    ]));
    let found = json(&ran);
    let refused = server.stop().refused();
    // Each level of 0.8 s is refused once and waits for the second that was asked for.
    assert!(refused <= 2 + 2, "{refused} refused: {found}");
    assert!(
        ran.stderr.contains("a pause is waited for"),
        "{}",
        ran.stderr
    );
}

#[test]
fn the_first_requests_of_a_job_are_made_in_turn() {
    let server = Server::start(SimConfig::one(
        SiteSpec::new("api", ApiSite::new(1)).knobs(knobs(Vec::new())),
    ))
    .expect("the built-in site");
    let base = server.base_url("api").expect("the site");
    let dir = tempfile::tempdir().expect("a directory");
    fs::create_dir(dir.path().join("sites")).expect("a directory");
    let definition = ApiSite::definition(&base);
    fs::write(dir.path().join("sites/api.toml"), &definition).expect("a file");
    let name: toml::Table = definition.parse().expect("TOML");
    let name = name["name"].as_str().expect("a name").to_owned();
    let ran = run(calibrate(dir.path()).args([
        "--sites",
        "sites",
        "--site",
        &name,
        "--keywords",
        "rust",
        "--max",
        "4",
        "--write",
        "--json",
    ]));
    assert_eq!(ran.code, Some(0), "{}\n{}", ran.stdout, ran.stderr);
    let found = json(&ran);
    assert!(
        found["levels"][0]["requests"]
            .as_u64()
            .is_some_and(|all| all > 10)
    );
    let level = found["verdict"]["level"].as_u64().expect("a level");
    let local = fs::read_to_string(dir.path().join("config/local.toml")).expect("a file");
    let local: toml::Table = local.parse().expect("TOML");
    assert_eq!(
        local["sites"][name.as_str()]["max_concurrency_num"].as_integer(),
        i64::try_from(level).ok()
    );
    // The global cap is 1 by default, and would keep the site's own from having any effect.
    assert_eq!(
        local["max_concurrency_num"].as_integer(),
        i64::try_from(level).ok()
    );
    let counts = server.stop();
    let classes: BTreeMap<_, _> = counts.sites["api"]
        .classes
        .iter()
        .filter(|(_, class)| class.requests > 0)
        .collect();
    assert!(classes.len() >= 2, "list and follow-ups: {classes:?}");
}

#[test]
fn what_was_found_is_written_and_shown_with_its_origin() {
    let (_server, url) = start(knobs(vec![Limit::Concurrency { max: 3 }]));
    let dir = tempfile::tempdir().expect("a directory");
    let args = ["--url", &url, "--levels", "1,2,4", "--write"];
    let ran = run(calibrate(dir.path()).args(args));
    assert_eq!(ran.code, Some(0), "{}\n{}", ran.stdout, ran.stderr);
    assert!(
        ran.stdout
            .contains("Wrote max_concurrency_num = 2 to config/local.toml"),
        "{}",
        ran.stdout
    );
    let shown = run(binary(dir.path()).arg("config")).stdout;
    let line = shown
        .lines()
        .find(|line| line.starts_with("max_concurrency_num"))
        .expect("the key");
    assert!(
        line.contains("= 2 ") && line.ends_with("# config/local.toml:1"),
        "{line}"
    );

    // What is configured now is the ceiling, and says where it was set.
    let again = run(calibrate(dir.path()).args(args));
    assert_eq!(again.code, Some(2), "{}", again.stderr);
    assert!(
        again.stderr.contains(
            "level 4 is above max_concurrency_num, which is 2 (config/local.toml:1); --max 4"
        ),
        "{}",
        again.stderr
    );
}

#[test]
fn comments_and_other_keys_of_the_local_file_stay() {
    let (_server, url) = start(knobs(Vec::new()));
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("mine/local.toml");
    fs::create_dir(dir.path().join("mine")).expect("a directory");
    let before = "# mine\nmax_wait = \"1min\" # short\nmax_concurrency_num = 1 # by feel\n\n# less noise\n[log]\nlevel = \"info\"\n";
    fs::write(&file, before).expect("a file");
    let ran = run(calibrate(dir.path()).args([
        "--config", "mine", "--url", &url, "--max", "4", "--levels", "2,4", "--write",
    ]));
    assert_eq!(ran.code, Some(0), "{}\n{}", ran.stdout, ran.stderr);
    let after = fs::read_to_string(&file).expect("a file");
    assert_eq!(after, before.replace("num = 1 ", "num = 4 "));
    assert_eq!(
        fs::read_dir(dir.path().join("mine"))
            .expect("a directory")
            .count(),
        1
    );
}

#[test]
fn the_result_goes_where_it_was_asked_for() {
    let (_server, url) = start(knobs(Vec::new()));
    let dir = tempfile::tempdir().expect("a directory");
    let ran = run(calibrate(dir.path()).args([
        "--url",
        &url,
        "--levels",
        "4",
        "--json",
        "--out",
        "found.json",
    ]));
    assert_eq!(
        (ran.code, ran.stdout.as_str()),
        (Some(0), ""),
        "{}",
        ran.stderr
    );
    let text = fs::read_to_string(dir.path().join("found.json")).expect("a file");
    let found: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(found["schema_version"], 1);
    assert_eq!(found["exit_code"], 0);
}

#[test]
fn wrong_input_is_named() {
    let (_server, url) = start(knobs(Vec::new()));
    let (nowhere, private) = (format!("{url}no-such-page"), format!("{url}private/1"));
    let dir = tempfile::tempdir().expect("a directory");
    for (args, says) in [
        (&[][..], "nothing to ask for: give --url URL"),
        (&["--url", "not a url"], "not an absolute URL"),
        (
            &["--url", "ftp://example.com/"],
            "scheme `ftp` is not http or https",
        ),
        (&["--url", &nowhere], "answered 404: gone"),
        (&["--url", &private], "robots.txt disallows"),
        (
            &["--url", &url, "--levels", "0"],
            "level 0; allowed: 1 to 10000",
        ),
        (&["--url", &url, "--levels", "4,2"], "level 2 after 4"),
        (&["--url", &url, "--levels", "a"], "invalid value 'a'"),
        (&["--url", &url, "--max", "0"], "max_concurrency_num"),
        (
            &["--url", &url, "--max", "2", "--max_concurrency_num", "3"],
            "set twice",
        ),
        (
            &["--url", &url, "--max", "2", "--levels", "4"],
            "level 4 is above max_concurrency_num, which is 2 (option --max 2)",
        ),
        (
            &["--url", &url, "--seconds", "0"],
            "0 s per level; allowed: 0.1 to 3600 s",
        ),
        (
            &["--url", &url, "--seconds", "-1"],
            "--seconds -1: allowed: 0.1 to 3600",
        ),
        (&["--url", &url, "--seconds", "NaN"], "--seconds NaN"),
        (&["--url", &url, "--max-errors", "5"], "`5` is not a share"),
        (
            &["--url", &url, "--max-errors", "60%"],
            "a bound of 60 % on bad answers",
        ),
        (
            &["--url", &url, "--confidence", "100%"],
            "a confidence of 100 %",
        ),
        (&["--url", &url, "--warmup", "95%"], "a warm-up of 95 %"),
        (
            &["--url", &url, "--max-requests", "1"],
            "1 requests in all; allowed: 10",
        ),
        (&["--url", &url, "--rate", "fast"], "`fast` has no `/`"),
        (
            &["--url", &url, "--mode", "search"],
            "--url belongs to --mode crawl",
        ),
        (
            &["--url", &url, "--keywords", "a"],
            "belong to different modes",
        ),
        (
            &["--site", "nowhere", "--keywords", "a"],
            "unknown site `nowhere`",
        ),
        (&["--keywords", "a"], "mode search needs a site"),
    ] {
        let mut command = binary(dir.path());
        let ran = run(command.arg("calibrate").args(args));
        assert_eq!(ran.code, Some(2), "{args:?}: {}", ran.stderr);
        assert!(ran.stderr.contains(says), "{args:?}: {}", ran.stderr);
        assert_eq!(ran.stdout, "", "{args:?}");
    }
}

#[test]
fn a_site_that_does_not_answer_is_no_level() {
    let (server, url) = start(knobs(Vec::new()));
    drop(server);
    let dir = tempfile::tempdir().expect("a directory");
    let ran = run(calibrate(dir.path()).args(["--url", &url, "--json"]));
    assert_eq!(ran.code, Some(3), "{}\n{}", ran.stdout, ran.stderr);
    assert_eq!(json(&ran)["end"], "no_answer");
}

#[test]
fn a_signal_ends_it_with_what_is_known() {
    let (server, url) = start(knobs(Vec::new()));
    let dir = tempfile::tempdir().expect("a directory");
    let child = binary(dir.path())
        .args([
            "calibrate",
            "--url",
            &url,
            "--levels",
            "1,2",
            "--seconds",
            "600",
            "--max-requests",
            "200",
            "--json",
            "--write",
        ])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    // The first level ends with its part of the requests; the second is under way.
    assert!(server.wait_for(DEADLINE, |counts| counts.requests() > 120));
    let pid = nix::unistd::Pid::from_raw(i32::try_from(child.id()).expect("a process id"));
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGINT).expect("a signal");
    let output = child.wait_with_output().expect("it ends");
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(130), "{text}");
    let found: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(found["end"], "interrupted");
    assert_eq!(found["levels"][0]["complete"], true, "{found}");
    assert_eq!(found["levels"][1]["complete"], false, "{found}");
    assert_eq!(found["verdict"]["level"], 1, "{found}");
    assert!(!dir.path().join("config").exists(), "nothing is written");
}

#[test]
fn time_outs_count_against_a_level() {
    // A queue: each answer takes longer than the client waits once four wait for it.
    let (_server, url) = start(Knobs {
        refusal: Refusal {
            after: 400 * MS,
            ..Refusal::default()
        },
        ..knobs(vec![Limit::Concurrency { max: 2 }])
    });
    let dir = tempfile::tempdir().expect("a directory");
    let ran = run(calibrate(dir.path()).args([
        "--url",
        &url,
        "--levels",
        "2,4",
        "--json",
        "--set",
        "exchange.total_timeout=200ms",
    ]));
    assert_eq!(ran.code, Some(0), "{}\n{}", ran.stdout, ran.stderr);
    let found = json(&ran);
    assert_eq!(found["verdict"]["level"], 2, "{found}");
    let outcomes = &found["levels"][1]["outcomes"];
    assert!(
        outcomes["timeout"].as_u64().is_some_and(|all| all > 0),
        "{found}"
    );
    assert_eq!(outcomes["limited"], Value::Null, "{found}");
}

#[test]
fn the_unused_knobs_of_a_class_stay_out_of_it() {
    // robots.txt is slow and limited: it is asked for once, outside of the levels.
    let endpoints = BTreeMap::from([(
        crawler_node::sim::ROBOTS.to_owned(),
        EndpointKnobs {
            latency: Some(Latency::Fixed(300 * MS)),
            ..EndpointKnobs::default()
        },
    )]);
    let (server, url) = start(Knobs {
        endpoints,
        ..knobs(Vec::new())
    });
    let dir = tempfile::tempdir().expect("a directory");
    let ran = run(calibrate(dir.path()).args(["--url", &url, "--levels", "4", "--json"]));
    assert_eq!(ran.code, Some(0), "{}\n{}", ran.stdout, ran.stderr);
    let slowest = json(&ran)["levels"][0]["latency_ms_p95"].as_f64();
    assert!(slowest.is_some_and(|slowest| slowest < 300.0));
    assert_eq!(server.stop().sites["web"].robots, 1);
}
