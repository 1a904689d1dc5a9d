//! Imports run downwards only; actix and awc are met only where the design puts them.

use std::fs;
use std::path::{Path, PathBuf};

/// Lower layers first; a module may use those before it. `sim` is used by `cli` alone, and its servers use nothing, so
/// that they count for themselves; the simulator drives the governor.
const LAYERS: &[&[&str]] = &[
    &["model"],
    &["settings", "calibrate"],
    &["observe"],
    &["governor"],
    &["store", "site", "exchange"],
    &["platform"],
    &["supervisor"],
    &["engine"],
    &["sim"],
    &["cli"],
];

fn sources() -> Vec<(PathBuf, String)> {
    fn walk(dir: &Path, into: &mut Vec<(PathBuf, String)>) {
        for entry in fs::read_dir(dir).expect("a directory") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                walk(&path, into);
            } else if path.extension().is_some_and(|end| end == "rs") {
                into.push((path.clone(), fs::read_to_string(&path).expect("text")));
            }
        }
    }
    let mut found = Vec::new();
    walk(Path::new("src"), &mut found);
    assert!(found.len() > 50, "run from the package's root");
    found
}

fn layer(module: &str) -> Option<usize> {
    LAYERS.iter().position(|layer| layer.contains(&module))
}

/// The module of `src` that a file belongs to.
fn module(path: &Path) -> String {
    let first = path.components().nth(1).expect("below src");
    first
        .as_os_str()
        .to_string_lossy()
        .trim_end_matches(".rs")
        .to_owned()
}

#[test]
fn imports_run_downwards_only() {
    let mut wrong = Vec::new();
    for (path, text) in sources() {
        let own = module(&path);
        let Some(own_layer) = layer(&own) else {
            continue;
        };
        let simulates = path.starts_with("src/sim/simulator");
        for (at, _) in text.match_indices("crate::") {
            let used: String = text[at + 7..]
                .chars()
                .take_while(|c| c.is_ascii_lowercase() || *c == '_')
                .collect();
            if let Some(used_layer) = layer(&used)
                && used != own
                && (used_layer >= own_layer || (own == "sim" && !simulates))
            {
                wrong.push(format!("{}: {own} uses {used}", path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn only_the_exchange_imports_awc() {
    for (path, text) in sources() {
        if text.contains("awc::") {
            assert_eq!(module(&path), "exchange", "{}", path.display());
        }
    }
}

#[test]
fn pure_cores_know_no_actor_clock_socket_or_disk() {
    const PURE: &[&str] = &[
        "src/governor/ledger",
        "src/governor/hints",
        "src/site",
        "src/model",
        "src/calibrate",
        "src/exchange/cookies",
        "src/platform/retry.rs",
        "src/platform/budget.rs",
        "src/platform/health.rs",
    ];
    const IMPURE: &[&str] = &[
        "actix",
        "Instant::now",
        "SystemTime::now",
        "tokio::net",
        "std::net::Tcp",
        "std::fs",
        "thread::sleep",
    ];
    /// Where values come in from outside, and are handed on as values.
    const DOORS: &[&str] = &["src/model/time.rs", "src/site/load.rs"];
    for (path, text) in sources() {
        let name = path.to_string_lossy().replace('\\', "/");
        if !PURE.iter().any(|pure| name.starts_with(pure)) || DOORS.contains(&&*name) {
            continue;
        }
        for word in IMPURE {
            assert!(!text.contains(word), "{name} uses {word}");
        }
    }
}
