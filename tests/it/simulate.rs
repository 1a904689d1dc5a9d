//! `simulate` as a whole: what it prints, what it writes, and what it says to wrong input.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::support::{Ran, binary, run};

fn simulate(dir: &Path, args: &[&str]) -> Ran {
    run(binary(dir).arg("simulate").args(args))
}

fn dir() -> tempfile::TempDir {
    tempfile::tempdir().expect("a directory")
}

#[test]
fn a_built_in_scenario_is_told_and_drawn_in_80_columns() {
    let dir = dir();
    let ran = simulate(dir.path(), &["b4"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    for part in [
        "goodput ÷ ideal",
        "refused",
        "bans: 0",
        "Jain",
        "pace /s",
        "accepted /s",
    ] {
        assert!(ran.stdout.contains(part), "{part}\n{}", ran.stdout);
    }
    assert!(!ran.stdout.contains('\x1b'), "no colour in a pipe");
    let widest = ran.stdout.lines().map(|line| line.chars().count()).max();
    assert!(widest <= Some(80), "{widest:?}\n{}", ran.stdout);
    assert_eq!(
        ran.stdout,
        simulate(dir.path(), &["b4"]).stdout,
        "the same seed"
    );
    assert_ne!(
        ran.stdout,
        simulate(dir.path(), &["b4", "--seed", "1"]).stdout
    );
}

#[test]
fn a_file_describes_origin_clients_and_configuration() {
    let dir = dir();
    let text = r#"
        about = "one at a time, 40 tasks"
        lasts = "10min"
        [origin]
        limits = { kind = "at_once", max = 4 }
        service = { time = "100ms", random = "0s" }
        [limits]
        max_concurrency_num = 1
        [clients]
        tasks = 40
    "#;
    fs::write(dir.path().join("one.toml"), text).expect("written");
    let ran = simulate(dir.path(), &["one.toml", "--json"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let told: Value = serde_json::from_str(&ran.stdout).expect("JSON");
    let report = &told["report"];
    assert_eq!(told["about"], "one at a time, 40 tasks");
    assert_eq!(report["good"], 40);
    assert_eq!(report["peak"], 1);
    assert_eq!(report["refused"], 0);
    // 40 times 100 ms and 20 ms of wire, one after the other.
    let finished = report["finished"].as_f64().expect("all done");
    assert!((4.8..30.0).contains(&finished), "{finished}");
    assert!(
        told["samples"]
            .as_array()
            .is_some_and(|all| !all.is_empty())
    );
}

#[test]
fn a_picture_is_written() {
    let dir = dir();
    let ran = simulate(dir.path(), &["b8", "--svg", "b8.svg", "--seconds", "130"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let picture = fs::read_to_string(dir.path().join("b8.svg")).expect("written");
    assert!(picture.starts_with("<svg") && picture.trim_end().ends_with("</svg>"));
    assert!(picture.contains("100/s, from 60 s 20/s") && !picture.contains("NaN"));
    let ran = simulate(dir.path(), &["b4", "--svg", "no/such/dir.svg"]);
    assert_eq!(ran.code, Some(2), "{}", ran.stderr);
}

#[test]
fn the_lists_name_scenarios_and_laws() {
    let dir = dir();
    let ran = simulate(dir.path(), &["--list"]);
    assert_eq!(ran.code, Some(0));
    for name in ["b1-small", "b14", "ours-responsive", "crawlee"] {
        assert!(ran.stdout.contains(name), "{name}\n{}", ran.stdout);
    }
}

#[test]
fn a_benchmark_has_a_row_for_each_scenario() {
    let dir = dir();
    let args = [
        "--benchmark",
        "--seeds",
        "1",
        "--laws",
        "crawlee",
        "--markdown",
    ];
    let ran = simulate(dir.path(), &args);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert_eq!(
        ran.stdout
            .lines()
            .filter(|line| line.starts_with("| b"))
            .count(),
        34
    );
    assert!(ran.stdout.contains("| crawlee |"), "{}", ran.stdout);
    let args = [
        "--benchmark",
        "--random",
        "--seeds",
        "3",
        "--laws",
        "crawlee",
    ];
    let ran = simulate(dir.path(), &args);
    assert!(ran.stdout.contains("sealed"), "{}", ran.stdout);
}

#[test]
fn wrong_input_is_said_with_its_place_and_what_was_meant() {
    let dir = dir();
    fs::write(dir.path().join("bad.toml"), "lasts = \"1min\"\n\n[orign]\n").expect("written");
    fs::write(dir.path().join("worse.toml"), "lasts = [\n").expect("written");
    for (args, said) in [
        (
            &["bad.toml"][..],
            &["bad.toml:3: `orign`", "did you mean `origin`?"][..],
        ),
        (&["worse.toml"], &["worse.toml:"]),
        (&["b44"], &["no built-in scenario", "nearest: b4"]),
        (&["b4", "--law", "our"], &["our", "ours"]),
        (&["--benchmark", "--laws", "awz"], &["--laws awz", "aws"]),
        (&["b4", "--seconds", "0"], &["--seconds"]),
        (&["b4", "--set", "limits.rate=1/s"], &["[limits]"]),
        (&["b4", "--max-concurrency-num", "0"], &["1 to 10000"]),
        (&["b4", "--benchmark"], &["cannot be used with"]),
        (&["--seeds", "3"], &["--benchmark"]),
        (&[], &["required"]),
    ] {
        let ran = simulate(dir.path(), args);
        assert_eq!(ran.code, Some(2), "{args:?}\n{}", ran.stderr);
        for part in said {
            assert!(
                ran.stderr.contains(part),
                "{args:?}: {part}\n{}",
                ran.stderr
            );
        }
        assert!(ran.stdout.is_empty(), "{args:?}");
    }
}
