//! Files: whole, once, in bounded memory, and gone on with where they were cut.

mod host;
mod memory;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use bytes::Bytes;
use crawler_node::sim::{
    EndpointKnobs, Fault, FaultKind, Knobs, MediaSite, Pick, Server, SimConfig, SiteSpec,
};
use serde_json::Value;

use self::host::{Host, Reply, tag};
use crate::support::{Ran, binary, records, run};

const FILES: u32 = 24;

/// The built-in media site with `faults` on its files, and the command that crawls it.
struct Sim {
    site: MediaSite,
    server: Server,
    dir: tempfile::TempDir,
}

impl Sim {
    fn start(faults: Vec<Fault>, edit: impl Fn(&mut MediaSite)) -> Self {
        let mut site = MediaSite::new(5, FILES);
        edit(&mut site);
        let mut knobs = Knobs::default();
        let faulty = EndpointKnobs {
            faults: Some(faults),
            ..EndpointKnobs::default()
        };
        knobs.endpoints.insert("file".to_owned(), faulty);
        let spec = SiteSpec::new("media", site.clone()).knobs(knobs);
        let server = Server::start(SimConfig::one(spec)).expect("a server");
        let dir = tempfile::tempdir().expect("a directory");
        let base = server.base_url("media").expect("a site");
        fs::create_dir(dir.path().join("sites")).expect("a directory");
        let text = MediaSite::definition(&base);
        fs::write(dir.path().join("sites/media.toml"), text).expect("a definition");
        Self { site, server, dir }
    }

    fn run(&self) -> Ran {
        run(&mut crawl(
            self.dir.path(),
            "demo-media",
            &["--mode", "search", "--keywords", "cats"],
        ))
    }

    fn saved(&self) -> BTreeMap<String, Bytes> {
        files(&self.dir.path().join("data/media/demo-media/file"))
    }

    fn records(&self) -> Vec<Value> {
        media(self.dir.path())
    }
}

fn crawl(dir: &Path, site: &str, more: &[&str]) -> Command {
    let mut command = binary(dir);
    command
        .args(["crawl", "--sites", "sites", "--site", site, "--out", "data"])
        .args([
            "--max_concurrency_num",
            "4",
            "--set",
            "test_time_scale=0.02",
        ])
        .args(more);
    command
}

/// The records of files, by key.
fn media(dir: &Path) -> Vec<Value> {
    let mut found = records(&dir.join("data"));
    found.retain(|record| record["_kind"] == "media");
    found.sort_by_key(|record| record["_key"].as_str().map(str::to_owned));
    found
}

/// Every file of a folder, hidden ones too.
fn files(folder: &Path) -> BTreeMap<String, Bytes> {
    let Ok(entries) = fs::read_dir(folder) else {
        return BTreeMap::new();
    };
    entries
        .map(|entry| {
            let entry = entry.expect("an entry");
            let name = entry.file_name().to_string_lossy().into_owned();
            (name, fs::read(entry.path()).expect("a file").into())
        })
        .collect()
}

/// One file of a host of the test's own.
fn one_file(host: &Host, save: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a directory");
    fs::create_dir(dir.path().join("sites")).expect("a directory");
    let text = format!(
        "name = \"files\"\nbase_url = \"{}\"\nrobots = \"off\"\n[modes.detail]\nstart = \"file\"\n\
         [endpoints.file]\nget = \"/f/{{id}}\"\nsave = {{ name = \"{{id}}\", {save} }}\n",
        host.base
    );
    fs::write(dir.path().join("sites/files.toml"), text).expect("a definition");
    dir
}

fn detail(dir: &Path, id: &str) -> Command {
    crawl(dir, "files", &["--mode", "detail", "--ids", id])
}

fn saved_by_files(dir: &Path) -> BTreeMap<String, Bytes> {
    files(&dir.join("data/media/files/file"))
}

#[test]
fn files_are_saved_whole_each_with_a_record_that_tells_where_and_what() {
    let sim = Sim::start(Vec::new(), |_| {});
    let ran = sim.run();
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let expected = sim.site.expected();
    assert!(sim.saved() == expected, "{:?}", sim.saved().keys());
    let found = sim.records();
    assert_eq!(found.len(), FILES as usize);
    for record in found {
        let path = record["path"].as_str().expect("a path");
        let name = path
            .strip_prefix("media/demo-media/file/")
            .expect("a place");
        let file = &expected[name];
        assert_eq!(record["bytes"], file.len());
        let sum = record["checksum"].as_str().expect("a checksum");
        assert!(sum.starts_with("sha256:") && sum.len() == 7 + 64, "{sum}");
        assert_eq!(record["keyword"], "cats", "carried from the list");
        let item = record["item"].as_str().expect("an item");
        assert!(name.starts_with(&format!("{item}.")));
        assert_eq!(record["_key"], format!("file/{item}"));
        let url = record["url"].as_str().expect("a URL");
        assert!(url.contains(&format!("/media/file/{item}?token=")));
    }
    // Nothing is asked again by a job that is complete.
    let before = sim.server.counts().requests();
    assert_eq!(sim.run().code, Some(0));
    assert_eq!(sim.server.counts().requests(), before);
}

#[test]
fn files_that_are_cut_in_the_middle_go_on_there_and_end_whole() {
    let cut = |attempts| Fault {
        kind: FaultKind::Truncate,
        pick: Pick::Resources {
            share: 0.3,
            attempts,
        },
    };
    for ranges in [true, false] {
        let sim = Sim::start(vec![cut(1)], |site| site.ranges = ranges);
        let ran = sim.run();
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        assert!(
            sim.saved() == sim.site.expected(),
            "{:?}",
            sim.saved().keys()
        );
        assert_eq!(sim.records().len(), FILES as usize);
    }
}

#[test]
fn a_captcha_in_place_of_a_file_is_a_captcha_and_a_page_is_no_file() {
    for (body, code) in [("<p>prove that you are human", 4), ("<html><p>Sorry", 3)] {
        let page = Fault {
            kind: FaultKind::Replace {
                content_type: "text/html".to_owned(),
                body: body.to_owned(),
            },
            pick: Pick::Target {
                prefix: "/media/file/0".to_owned(),
                attempts: u32::MAX,
            },
        };
        let sim = Sim::start(vec![page], |site| site.files = 1);
        let ran = sim.run();
        assert_eq!(ran.code, Some(code), "{body}: {}", ran.stderr);
        assert_eq!(sim.saved(), BTreeMap::new());
        assert!(sim.records().is_empty());
    }
}

#[test]
fn a_page_that_lies_about_its_type_is_no_file() {
    let page = "<!doctype html><title>Log in</title>".repeat(3000);
    let host =
        Host::start(move |_, _| Reply::ok(page.clone().into()).field("Content-Type: image/jpeg"));
    let dir = one_file(&host, "types = [\"image/*\"]");
    let ran = run(&mut detail(dir.path(), "7"));
    assert_eq!(ran.code, Some(3), "{}", ran.stderr);
    assert!(saved_by_files(dir.path()).is_empty());
}

#[test]
fn a_file_above_its_limit_fails_at_once_and_leaves_nothing() {
    let file = Bytes::from(vec![7; 300_000]);
    for announced in [true, false] {
        let file = file.clone();
        let host = Host::start(move |_, _| {
            let reply = Reply::ok(file.clone()).field("ETag: \"a\"");
            if announced { reply } else { reply.chunked() }
        });
        let dir = one_file(&host, "max_bytes = \"250 kB\"");
        let ran = run(&mut detail(dir.path(), "7"));
        assert_eq!(ran.code, Some(3), "{}", ran.stderr);
        assert!(
            ran.stderr.contains("larger than 250000 bytes"),
            "{}",
            ran.stderr
        );
        assert_eq!(host.requests().len(), 1, "never retried");
        assert_eq!(saved_by_files(dir.path()), BTreeMap::new());
    }
}

#[test]
fn a_disk_that_refuses_ends_the_run_and_the_task_waits() {
    let host = Host::start(|_, _| Reply::ok(vec![7; 100_000].into()));
    let dir = one_file(&host, "max_bytes = \"1 MB\"");
    fs::create_dir_all(dir.path().join("data")).expect("a directory");
    fs::write(dir.path().join("data/media"), "in the way").expect("a file");
    let ran = run(&mut detail(dir.path(), "7"));
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    assert!(ran.stderr.contains("cannot"), "{}", ran.stderr);
    fs::remove_file(dir.path().join("data/media")).expect("removed");
    let ran = run(&mut detail(dir.path(), "7"));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert_eq!(saved_by_files(dir.path())["7.bin"].len(), 100_000);
}

/// `data` in each coding, by its label.
fn coded(data: &[u8]) -> Vec<(&'static str, Bytes)> {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::{GzEncoder, ZlibEncoder};
    let gzip = |data: &[u8]| {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(data).expect("encoded");
        encoder.finish().expect("encoded")
    };
    let mut zlib = ZlibEncoder::new(Vec::new(), Compression::fast());
    zlib.write_all(data).expect("encoded");
    let mut brotli = Vec::new();
    brotli::CompressorWriter::new(&mut brotli, 4096, 2, 20)
        .write_all(data)
        .expect("encoded");
    let mut zstd = vec![0; zstd_safe::compress_bound(data.len())];
    let length = zstd_safe::compress(&mut zstd[..], data, 3).expect("encoded");
    zstd.truncate(length);
    vec![
        ("gzip", gzip(data).into()),
        ("deflate", zlib.finish().expect("encoded").into()),
        ("br, gzip", gzip(&brotli).into()),
        ("br", brotli.into()),
        ("zstd", zstd.into()),
    ]
}

#[test]
fn a_coded_file_is_saved_decoded() {
    // No coding makes it small enough to be judged as a whole.
    let plain: Bytes = (0..400_000u32)
        .flat_map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes())
        .collect();
    for (label, body) in coded(&plain) {
        assert!(body.len() > 100_000, "{label}: {}", body.len());
        let field = format!("Content-Encoding: {label}");
        let host = Host::start(move |_, _| Reply::ok(body.clone()).field(&field));
        let dir = one_file(&host, "max_bytes = \"2 MB\"");
        let ran = run(&mut detail(dir.path(), "7"));
        assert_eq!(ran.code, Some(0), "{label}: {}", ran.stderr);
        assert!(saved_by_files(dir.path())["7.bin"] == plain, "{label}");
        let small = one_file(&host, "max_bytes = \"1 MB\"");
        let ran = run(&mut detail(small.path(), "7"));
        let why = "the limit is that of the file";
        assert_eq!(ran.code, Some(3), "{label}: {why}: {}", ran.stderr);
        assert!(saved_by_files(small.path()).is_empty(), "{label}");
    }
}

#[test]
fn a_file_that_only_grows_when_it_is_decoded_is_a_bomb() {
    // Larger than what is judged as a whole, and still a thousand times larger decoded.
    let (label, body) = coded(&vec![0; 60_000_000]).remove(0);
    assert!(body.len() > 40_000, "{}", body.len());
    let field = format!("Content-Encoding: {label}");
    let host = Host::start(move |_, _| Reply::ok(body.clone()).field(&field));
    for (most, code) in [("10", 3), ("2000", 0)] {
        let dir = one_file(&host, "max_bytes = \"100 MB\"");
        let most = format!("exchange.max_expansion={most}");
        let ran = run(detail(dir.path(), "7").args(["--set", &most]));
        assert_eq!(ran.code, Some(code), "{most}: {}", ran.stderr);
        let bomb = ran.stderr.contains("`exchange.max_expansion`");
        assert_eq!(bomb, code == 3, "{}", ran.stderr);
        assert_eq!(saved_by_files(dir.path()).is_empty(), code == 3);
    }
}

/// A file of which the first answer brings the first half and then hangs until the client is killed.
fn killed_in_the_middle(
    then: impl Fn(&str, &Bytes) -> Reply + Send + Sync + 'static,
) -> (Host, tempfile::TempDir, Bytes) {
    let file: Bytes = (0..1_500_000u32).flat_map(u32::to_le_bytes).collect();
    let whole = file.clone();
    let host = Host::start(move |nth, head| match nth {
        0 => Reply::ok(whole.clone())
            .field("ETag: \"v1\"")
            .hangs_after(3_000_000),
        _ => then(head, &whole),
    });
    let dir = one_file(&host, "max_bytes = \"100 MB\"");
    let mut child = detail(dir.path(), "7")
        .stderr(Stdio::null())
        .spawn()
        .expect("the binary starts");
    // The part is there as soon as the server has handed over what it hands over.
    let part = dir.path().join("data/media/files/file/.7.part");
    host.wait_until(|| fs::metadata(&part).is_ok_and(|part| part.len() > 2_000_000));
    child.kill().expect("killed");
    child.wait().expect("ended");
    assert!(media(dir.path()).is_empty(), "a part is no file");
    (host, dir, file)
}

fn ends_whole(dir: &Path, file: &Bytes) {
    let ran = run(&mut detail(dir, "7"));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let saved = saved_by_files(dir);
    assert_eq!(saved.keys().collect::<Vec<_>>(), ["7.bin"]);
    assert!(saved["7.bin"] == *file);
    let found = media(dir);
    assert_eq!(found.len(), 1);
    let sum = blake3::hash(file).to_hex();
    assert_eq!(found[0]["checksum"], format!("blake3:{sum}"));
}

#[test]
fn killed_in_the_middle_of_a_file_it_asks_for_the_rest_alone() {
    let (host, dir, file) = killed_in_the_middle(Reply::rest_of);
    ends_whole(dir.path(), &file);
    let asked = &host.requests()[1];
    let from = tag(asked, "range").expect("a range");
    let from: usize = from["bytes=".len()..from.len() - 1]
        .parse()
        .expect("a number");
    assert!((2_000_000..=3_000_000).contains(&from), "{from}");
    assert_eq!(tag(asked, "if-range").as_deref(), Some("\"v1\""));
    assert_eq!(host.requests().len(), 2);
}

#[test]
fn a_file_that_changed_meanwhile_starts_over() {
    let (_host, dir, _) =
        killed_in_the_middle(|_, file| Reply::ok(file.slice(400..)).field("ETag: \"v2\""));
    let changed: Bytes = (100..1_500_000u32).flat_map(u32::to_le_bytes).collect();
    ends_whole(dir.path(), &changed);
}

#[test]
fn parts_that_are_not_what_was_asked_for_are_never_joined() {
    for (range, tag_of) in [
        ("bytes 5-5999999/6000000", "\"v1\""),
        ("bytes FROM-5999999/7000000", "\"v1\""),
        ("bytes FROM-5999998/6000000", "\"v1\""),
        ("bytes FROM-5999999/6000000", "\"v2\""),
        ("nonsense", "\"v1\""),
    ] {
        let (host, dir, file) = killed_in_the_middle(move |head, file| match tag(head, "range") {
            None => Reply::ok(file.clone()).field("ETag: \"v1\""),
            Some(asked) => {
                let from = &asked["bytes=".len()..asked.len() - 1];
                let first: usize = from.parse().expect("a number");
                let wrong = vec![0xee; file.len() - first];
                Reply::ok(wrong.into())
                    .status(206)
                    .field(&format!("Content-Range: {}", range.replace("FROM", from)))
                    .field(&format!("ETag: {tag_of}"))
            }
        });
        ends_whole(dir.path(), &file);
        assert_eq!(host.requests().len(), 3, "{range} {tag_of}");
    }
}

#[test]
fn a_range_that_cannot_be_had_leads_to_the_whole_file_unless_nothing_is_missing() {
    let (host, dir, file) = killed_in_the_middle(|head, file| match tag(head, "range") {
        None => Reply::ok(file.clone()),
        Some(_) => Reply::ok(Bytes::new())
            .status(416)
            .field("Content-Range: bytes */17"),
    });
    ends_whole(dir.path(), &file);
    assert_eq!(host.requests().len(), 3);

    // Killed between the last byte and the new name: all of it is there.
    let (host, dir, file) = killed_in_the_middle(|head, file| {
        assert!(tag(head, "range").is_some());
        Reply::ok(Bytes::new())
            .status(416)
            .field(&format!("Content-Range: bytes */{}", file.len()))
    });
    let part = dir.path().join("data/media/files/file/.7.part");
    fs::write(part, &file).expect("written");
    ends_whole(dir.path(), &file);
    assert_eq!(host.requests().len(), 2);
}
