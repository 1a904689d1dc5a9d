//! The binary as people and scripts meet it.

use std::fs;
use std::process::Stdio;
use std::time::Instant;

use crawler_node::sim::{
    ApiSite, Fault, FaultKind, HtmlSite, Knobs, Pick, Server, SimConfig, SiteSpec,
};
use serde_json::Value;

use crate::support::{DEADLINE, binary, records, run};

fn html() -> (Server, String) {
    let server = Server::start(SimConfig::one(SiteSpec::new("web", HtmlSite::new(4, 12))))
        .expect("the built-in site");
    let url = format!("{}/", server.base_url("web").expect("the site"));
    (server, url)
}

#[test]
fn a_crawl_needs_no_site_file_no_configuration_and_no_cap() {
    for cap in [
        &[][..],
        &["--max_concurrency_num", "3"],
        &["--max-concurrency-num", "3"],
    ] {
        let (server, url) = html();
        let dir = tempfile::tempdir().expect("a directory");
        let ran = run(binary(dir.path())
            .args(["crawl", "--mode", "crawl", "--urls", &url])
            .args(cap));
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        assert_eq!(ran.stdout, "", "nothing was asked for on stdout");
        let pages = records(&dir.path().join("data"));
        assert_eq!(pages.len(), HtmlSite::new(4, 12).expected().len());
        for page in &pages {
            assert!(
                page["url"].is_string() && page["title"].is_string(),
                "{page}"
            );
            assert_eq!(page["status"], 200);
        }
        let peak = server.stop().peak_in_flight;
        assert!(peak <= if cap.is_empty() { 1 } else { 3 }, "peak {peak}");
    }
}

#[test]
fn a_complete_job_run_again_sends_nothing_and_says_so() {
    let (server, url) = html();
    let dir = tempfile::tempdir().expect("a directory");
    let crawl = || run(binary(dir.path()).args(["crawl", "--urls", &url]));
    assert_eq!(crawl().code, Some(0));
    let before = server.counts().requests();
    let again = crawl();
    assert_eq!(again.code, Some(0), "{}", again.stderr);
    assert!(
        again.stderr.contains("complete already"),
        "{}",
        again.stderr
    );
    assert_eq!(server.stop().requests(), before);
}

#[test]
fn the_report_is_written_kept_and_has_the_shape_of_its_schema() {
    let (_server, url) = html();
    let dir = tempfile::tempdir().expect("a directory");
    let ran = run(binary(dir.path()).args(["crawl", "--urls", &url, "--report", "report.json"]));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let text = fs::read_to_string(dir.path().join("report.json")).expect("a report");
    let written: Value = serde_json::from_str(&text).expect("JSON");
    let kept = run(binary(dir.path()).args(["report", "--json"]));
    let kept: Value = serde_json::from_str(&kept.stdout).expect("JSON");
    assert_eq!(written, kept);
    assert_eq!(written["outcome"], "complete");
    assert_eq!(written["exit_code"], 0);
    let tasks = &written["sites"]["web"]["tasks"];
    let sum: u64 = ["pending", "leased", "done", "failed", "parked", "dropped"]
        .iter()
        .map(|state| tasks[state].as_u64().expect("a count"))
        .sum();
    assert_eq!(tasks["added"], sum);
    let schema: Value =
        serde_json::from_str(&fs::read_to_string("docs/report.schema.json").expect("the schema"))
            .expect("JSON");
    matches_schema(&written, &schema, &schema, "report");
    let table = run(binary(dir.path()).args(["report"]));
    assert!(
        table.stdout.contains("complete (exit code 0)"),
        "{}",
        table.stdout
    );
}

/// As much of JSON Schema as the report's schema uses: types, required, properties, additionalProperties, $ref, enum.
fn matches_schema(value: &Value, schema: &Value, root: &Value, at: &str) {
    if let Some(reference) = schema["$ref"].as_str() {
        let name = reference.rsplit('/').next().expect("a name");
        return matches_schema(value, &root["$defs"][name], root, at);
    }
    if let Some(allowed) = schema["enum"].as_array() {
        assert!(
            allowed.contains(value),
            "{at}: {value} is none of {allowed:?}"
        );
    }
    match schema["type"].as_str().expect("every schema has a type") {
        "object" => {
            let object = value.as_object().unwrap_or_else(|| panic!("{at}: {value}"));
            for name in schema["required"].as_array().into_iter().flatten() {
                assert!(
                    object.contains_key(name.as_str().expect("a name")),
                    "{at}: no {name}"
                );
            }
            for (name, value) in object {
                let schema = match schema["properties"].get(name) {
                    Some(schema) => schema,
                    None => match &schema["additionalProperties"] {
                        Value::Object(_) => &schema["additionalProperties"],
                        _ => panic!("{at}: unknown property {name}"),
                    },
                };
                matches_schema(value, schema, root, &format!("{at}.{name}"));
            }
        }
        "array" => {
            for item in value.as_array().unwrap_or_else(|| panic!("{at}: {value}")) {
                matches_schema(item, &schema["items"], root, at);
            }
        }
        "string" => assert!(value.is_string(), "{at}: {value}"),
        "integer" => assert!(value.is_u64(), "{at}: {value}"),
        "number" => assert!(value.is_number(), "{at}: {value}"),
        other => panic!("{at}: type {other}"),
    }
}

#[test]
fn wrong_input_is_a_usage_error_that_says_what_is_allowed_and_sends_nothing() {
    let (server, url) = html();
    let dir = tempfile::tempdir().expect("a directory");
    let cases: &[(&[&str], &str)] = &[
        (
            &["--urls", &url, "--max_concurrency_num", "0"],
            "1 to 10000",
        ),
        (
            &["--urls", &url, "--max_concurrency_num", "-1"],
            "1 to 10000",
        ),
        (
            &["--urls", &url, "--max_concurrency_num", "x"],
            "max_concurrency_num",
        ),
        (
            &["--urls", &url, "--set", "max_concurency_num=3"],
            "max_concurrency_num",
        ),
        (&["--urls", &url, "--set", "prefetch"], "KEY=VALUE"),
        (
            &[
                "--urls",
                &url,
                "--max_concurrency_num",
                "3",
                "--set",
                "max_concurrency_num=4",
            ],
            "max_concurrency_num",
        ),
        (&["--urls", "not a URL"], "not a URL"),
        (&["--urls", "ftp://127.0.0.1/"], "ftp"),
        (&["--urls", &url, "--mode", "sarch"], "search"),
        (&["--urls", &url, "--mode", "search"], "--mode crawl"),
        (&["--mode", "search", "--keywords", "a"], "--site"),
        (
            &["--mode", "search", "--site", "zhihoo", "--keywords", "a"],
            "zhihoo",
        ),
        (&["--urls", &url, "--rate", "fast"], "2/s"),
        (&["--urls", &url, "--include", "("], "("),
        (&["--urls", &url, "--scope", "world"], "host"),
        (&[], "--urls"),
        (
            &["--urls", &url, "--max-items", "3"],
            "modes search, detail and creator",
        ),
        (&["--urls", &url, "--max-pages", "0"], "--max-pages"),
        (&["--urls", &url, "--max-depth", "-1"], "--max-depth"),
        (
            &["--urls", &url, "--report", "nowhere/report.json"],
            "nowhere/report.json",
        ),
        (&["--urls", &url, "--out", "/dev/null/out"], "/dev/null/out"),
        (
            &["--urls", &url, "--set", "sites.wbe.rate=1/s"],
            "nearest: web",
        ),
        (
            &[
                "--urls",
                &url,
                "--state",
                "/dev/null",
                "--set",
                "limits.quota=5/h",
            ],
            "/dev/null",
        ),
        (&["--urls", &url, "--config", "nowhere"], "nowhere"),
        (&["--urls", &url, "--sites", "nowhere"], "nowhere"),
    ];
    for (arguments, said) in cases {
        let ran = run(binary(dir.path()).arg("crawl").args(*arguments));
        assert_eq!(ran.code, Some(2), "{arguments:?}: {}", ran.stderr);
        assert!(
            ran.stderr.contains(said),
            "{arguments:?} does not say `{said}`: {}",
            ran.stderr
        );
        assert!(
            !ran.stderr.contains("panicked"),
            "{arguments:?}: {}",
            ran.stderr
        );
    }
    let variable = run(binary(dir.path())
        .args(["crawl", "--urls", &url])
        .env("CRAWLER__MAX_CONCURENCY_NUM", "3"));
    assert_eq!(variable.code, Some(2));
    assert!(
        variable.stderr.contains("CRAWLER__MAX_CONCURENCY_NUM"),
        "{}",
        variable.stderr
    );
    assert_eq!(server.stop().requests(), 0);
}

#[test]
fn another_job_in_the_same_directory_is_refused() {
    let (_server, url) = html();
    let dir = tempfile::tempdir().expect("a directory");
    assert_eq!(
        run(binary(dir.path()).args(["crawl", "--urls", &url])).code,
        Some(0)
    );
    let definition = ApiSite::definition("http://127.0.0.1:1");
    fs::create_dir(dir.path().join("sites")).expect("a directory");
    fs::write(dir.path().join("sites/demo-api.toml"), definition).expect("a file");
    let ran = run(binary(dir.path()).args([
        "crawl",
        "--sites",
        "sites",
        "--site",
        "demo-api",
        "--mode",
        "search",
        "--keywords",
        "a",
    ]));
    assert_eq!(ran.code, Some(2), "{}", ran.stderr);
    assert!(
        ran.stderr.contains("web") && ran.stderr.contains("demo-api"),
        "{}",
        ran.stderr
    );
}

#[test]
fn a_mode_that_a_site_does_not_have_is_refused_with_those_it_has() {
    let dir = tempfile::tempdir().expect("a directory");
    let definition = ApiSite::definition("http://127.0.0.1:1");
    fs::create_dir(dir.path().join("sites")).expect("a directory");
    fs::write(dir.path().join("sites/demo-api.toml"), definition).expect("a file");
    let ran = run(binary(dir.path()).args([
        "crawl",
        "--sites",
        "sites",
        "--site",
        "demo-api",
        "--urls",
        "http://127.0.0.1:1/",
    ]));
    assert_eq!(ran.code, Some(2), "{}", ran.stderr);
    assert!(
        ran.stderr.contains("search, detail, creator"),
        "{}",
        ran.stderr
    );
}

#[test]
fn a_start_that_brings_nothing_says_why() {
    let (_server, url) = html();
    let dir = tempfile::tempdir().expect("a directory");
    for (path, why) in [("nothing-here", "gone"), ("private/1.html", "robots.txt")] {
        let ran = run(binary(dir.path()).args([
            "crawl",
            "--urls",
            &format!("{url}{path}"),
            "--out",
            path,
        ]));
        assert_eq!(ran.code, Some(5), "{}", ran.stderr);
        assert!(ran.stderr.contains(why), "{path}: {}", ran.stderr);
    }
}

#[test]
fn what_fails_for_good_is_reported_and_the_exit_code_is_3() {
    let knobs = Knobs {
        faults: vec![Fault {
            kind: FaultKind::Status(500),
            pick: Pick::Target {
                prefix: "/s3/d0/page-3.html".to_owned(),
                attempts: u32::MAX,
            },
        }],
        ..Knobs::default()
    };
    let site = SiteSpec::new("web", HtmlSite::new(4, 12)).knobs(knobs);
    let server = Server::start(SimConfig::one(site)).expect("the built-in site");
    let url = format!("{}/", server.base_url("web").expect("the site"));
    let dir = tempfile::tempdir().expect("a directory");
    let ran = run(binary(dir.path()).args(["crawl", "--urls", &url]).args([
        "--set",
        "test_time_scale=0.01",
        "--report",
        "report.json",
    ]));
    assert_eq!(ran.code, Some(3), "{}", ran.stderr);
    assert!(ran.stderr.contains("page-3.html"), "{}", ran.stderr);
    let report: Value = serde_json::from_str(
        &fs::read_to_string(dir.path().join("report.json")).expect("a report"),
    )
    .expect("JSON");
    assert_eq!(report["sites"]["web"]["end"], "partial");
    assert_eq!(report["sites"]["web"]["troubles"][0]["attempts"], 5);
    server
        .set_knobs("web", &Knobs::default())
        .expect("the site's knobs");
    let before = server.counts().requests();
    let healed = run(binary(dir.path()).args(["crawl", "--urls", &url]));
    assert_eq!(healed.code, Some(0), "{}", healed.stderr);
    assert!(
        server.stop().requests() > before,
        "what failed is asked again"
    );
    assert_eq!(
        records(&dir.path().join("data")).len(),
        HtmlSite::new(4, 12).expected().len()
    );
}

#[test]
fn a_site_that_only_refuses_ends_the_run_as_blocked_with_what_is_pending_kept() {
    let knobs = Knobs {
        faults: vec![Fault {
            kind: FaultKind::Status(429),
            pick: Pick::Attempts { share: 1.0 },
        }],
        ..Knobs::default()
    };
    let site = SiteSpec::new("web", HtmlSite::new(4, 12)).knobs(knobs);
    let server = Server::start(SimConfig::one(site)).expect("the built-in site");
    let url = format!("{}/", server.base_url("web").expect("the site"));
    let dir = tempfile::tempdir().expect("a directory");
    let crawl = || {
        run(binary(dir.path())
            .args(["crawl", "--urls", &url, "--set", "test_time_scale=0.01"])
            .args(["--set", "max_wait=60s"]))
    };
    let blocked = crawl();
    assert_eq!(blocked.code, Some(4), "{}", blocked.stderr);
    server
        .set_knobs("web", &Knobs::default())
        .expect("the site's knobs");
    // It says when to come back; until then it is blocked still.
    let started = Instant::now();
    let mut healed = crawl();
    while healed.code == Some(4) {
        assert!(started.elapsed() < DEADLINE, "{}", healed.stderr);
        healed = crawl();
    }
    assert_eq!(healed.code, Some(0), "{}", healed.stderr);
    assert_eq!(
        records(&dir.path().join("data")).len(),
        HtmlSite::new(4, 12).expected().len()
    );
}

#[test]
fn plan_speaks_littles_law_the_right_way_round() {
    let dir = tempfile::tempdir().expect("a directory");
    let plan = |rps: &str, latency: &str| {
        run(binary(dir.path()).args(["plan", "--rps", rps, "--latency", latency]))
    };
    for (rps, latency, cap) in [
        ("10", "0.8", "8"),
        ("100", "0.29", "29"),
        ("5", "4", "20"),
        ("10", "0.02", "1"),
    ] {
        let ran = plan(rps, latency);
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        assert!(
            ran.stdout.contains(&format!("= {cap} in flight")),
            "{}",
            ran.stdout
        );
        assert!(ran.stdout.contains("cannot hold a rate"), "{}", ran.stdout);
        assert!(ran.stdout.ends_with('\n'));
    }
    for (rps, latency) in [
        ("0", "1"),
        ("1", "0"),
        ("NaN", "1"),
        ("1", "NaN"),
        ("-1", "1"),
        ("1", "-2"),
        ("inf", "1"),
    ] {
        let ran = plan(rps, latency);
        assert_eq!(ran.code, Some(2), "{rps} {latency}: {}", ran.stdout);
    }
}

#[test]
fn config_shows_where_each_value_came_from() {
    let dir = tempfile::tempdir().expect("a directory");
    fs::create_dir(dir.path().join("config")).expect("a directory");
    fs::write(dir.path().join("config/local.toml"), "prefetch = 3\n").expect("a file");
    let ran = run(binary(dir.path())
        .args([
            "config",
            "--max_concurrency_num",
            "8",
            "--set",
            "retry.max_attempts=2",
        ])
        .env("MAX_CONCURRENCY_NUM", "5")
        .env("CRAWLER__LOG__LEVEL", "debug"));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    for said in [
        "local.toml",
        "CRAWLER__LOG__LEVEL",
        "--set retry.max_attempts=2",
    ] {
        assert!(ran.stdout.contains(said), "no {said}: {}", ran.stdout);
    }
    let cap = ran
        .stdout
        .lines()
        .find(|line| line.starts_with("max_concurrency_num"))
        .expect("the cap");
    assert!(cap.starts_with("max_concurrency_num = 8"), "{cap}");
}

#[test]
fn sites_checks_files_and_names_line_and_key() {
    let dir = tempfile::tempdir().expect("a directory");
    fs::write(
        dir.path().join("good.toml"),
        ApiSite::definition("http://127.0.0.1:1"),
    )
    .expect("a file");
    let good = run(binary(dir.path()).args(["sites", "good.toml"]));
    assert_eq!(good.code, Some(0), "{}", good.stderr);
    let bad = ApiSite::definition("http://127.0.0.1:1").replace("more =", "mroe =");
    fs::write(dir.path().join("bad.toml"), bad).expect("a file");
    let bad = run(binary(dir.path()).args(["sites", "bad.toml"]));
    assert_eq!(bad.code, Some(2));
    assert!(
        bad.stderr.contains("bad.toml:") && bad.stderr.contains("mroe"),
        "{}",
        bad.stderr
    );
    assert!(
        bad.stderr.contains("more"),
        "the nearest name: {}",
        bad.stderr
    );
}

#[test]
fn the_demo_agrees_with_its_servers() {
    let dir = tempfile::tempdir().expect("a directory");
    let ran = run(binary(dir.path()).args(["demo", "--report", "demo.json"]));
    assert_eq!(ran.code, Some(0), "{}{}", ran.stdout, ran.stderr);
    assert!(ran.stdout.contains("Both sides agree"), "{}", ran.stdout);
    let report: Value =
        serde_json::from_str(&fs::read_to_string(dir.path().join("demo.json")).expect("a report"))
            .expect("JSON");
    assert_eq!(report["agrees"], true);
    assert!(report["elapsed_seconds"].as_f64().expect("a time") < 60.0);
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut child = binary(dir.path())
        .arg("config")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    drop(child.stdout.take());
    let status = child.wait().expect("ended");
    assert_eq!(
        status.code(),
        Some(0),
        "{}",
        crate::support::stderr_of(&mut child)
    );
}
