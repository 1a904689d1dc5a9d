use std::time::Duration;

use bytes::Bytes;
use url::Url;

use super::*;
use crate::model::{Answer, Headers, Outcome, Task};
use crate::site::{Site, SiteDefinition};

const HEAD: &str =
    "name = \"s\"\nbase_url = \"http://h\"\n[modes.detail]\nstart = \"file\"\n[endpoints.file]\n";

fn site(rest: &str) -> SiteDefinition {
    SiteDefinition::parse("s.toml", &format!("{HEAD}{rest}")).unwrap()
}

fn problems(rest: &str) -> String {
    let text = format!("{HEAD}{rest}");
    SiteDefinition::parse("s.toml", &text)
        .unwrap_err()
        .to_string()
}

fn task(id: &str) -> Task {
    Task {
        id: 1,
        lease: 1,
        site: "s".into(),
        endpoint: "file".into(),
        params: Params::from_iter([("id".to_owned(), id.into())]),
        lane: "file".into(),
        priority: 0,
        depth: 0,
        attempts: 0,
        list: None,
    }
}

fn answer(status: u16, kind: &str, body: &'static [u8]) -> Answer {
    let kind = Bytes::copy_from_slice(kind.as_bytes());
    Answer {
        url: Url::parse("http://h/f/7").unwrap(),
        status,
        headers: Headers(vec![("content-type".to_owned(), kind)]),
        body: Bytes::from_static(body),
        notes: Vec::new(),
        head_time: Duration::ZERO,
        total_time: Duration::ZERO,
    }
}

#[test]
fn a_name_stays_as_it_is_only_where_it_tells_its_task() {
    for (rest, telling) in [
        ("get = \"/f/{id}\"\nsave = { name = \"{id}\" }", true),
        ("get = \"/f/{id}\"\nsave = { name = \"pic_{id}\" }", true),
        (
            "get = \"/f/{id}\"\nidentity = [\"id\"]\nquery = { t = \"{t?}\" }\nsave = { name = \"{id}\" }",
            true,
        ),
        (
            "get = \"/f/{id}\"\nquery = { t = \"{t?}\" }\nsave = { name = \"{id}\" }",
            false,
        ),
        ("get = \"/f/{id}\"\nsave = { name = \"same\" }", false),
        ("get = \"/f/{id}\"\nsave = {}", false),
    ] {
        // Another way in fills what detail does not.
        let rest = rest.replace(
            "{t?}",
            if rest.contains("identity") {
                "x"
            } else {
                "{id}{id}"
            },
        );
        let telling = telling || rest.contains("{id}{id}");
        let save = site(&rest).save(&task("7")).unwrap().unwrap();
        assert_eq!(
            ["7", "pic_7"].contains(&&*save.stem),
            telling,
            "{rest}: {}",
            save.stem
        );
        assert_eq!(save.folder, "media/s/file");
        assert_eq!(save.key, format!("file/{}", save.stem));
    }
}

#[test]
fn everything_can_be_set_and_an_hour_is_given_for_it() {
    let site = site(
        "get = \"/f/{id}\"\n[endpoints.file.save]\ndir = \"big/files\"\nname = \"{id}\"\nkind = \"video\"\n\
         max_bytes = \"2 GiB\"\nchecksum = \"sha256\"\ntypes = [\"Video/*\"]\nfields = { of = \"{id}\" }",
    );
    let save = site.save(&task("7")).unwrap().unwrap();
    assert_eq!(save.folder, "media/s/big/files");
    assert_eq!((&*save.kind, save.max_bytes), ("video", 2 << 30));
    assert_eq!(
        (save.checksum, &save.types[0][..]),
        (Checksum::Sha256, "video/*")
    );
    assert_eq!(save.fields["of"], "7");
    let hour = Some(Duration::from_secs(3600));
    assert_eq!(site.limits().endpoints["file"].total_timeout, hour);
}

#[test]
fn what_makes_no_sense_is_named_with_what_is_allowed() {
    for (rest, text) in [
        (
            "get = \"/{id}\"\nsave = { max_byte = 1 }",
            "did you mean `max_bytes`?",
        ),
        (
            "get = \"/{id}\"\nsave = { max_bytes = \"many\" }",
            "not a size such as",
        ),
        (
            "get = \"/{id}\"\nsave = { max_bytes = \"0 B\" }",
            "a file of no bytes",
        ),
        (
            "get = \"/{id}\"\nsave = { checksum = \"md5\" }",
            "blake3, sha256",
        ),
        (
            "get = \"/{id}\"\nsave = { types = [\"video\"] }",
            "\"video/mp4\", \"image/*\"",
        ),
        (
            "get = \"/{id}\"\nsave = { dir = \"../up\" }",
            "is not a folder",
        ),
        (
            "get = \"/{id}\"\nsave = { dir = \"Up\" }",
            "is not a folder",
        ),
        (
            "get = \"/{id}\"\nsave = { name = \"{other}\" }",
            "is not filled by mode `detail`",
        ),
        (
            "get = \"/{id}\"\nsave = { fields = { url = \"x\" } }",
            "is a field of every file",
        ),
        ("post = \"/{id}\"\nsave = {}", "it cannot have `post`"),
        (
            "get = \"/{id}\"\nsave = {}\nlimits = { total_timeout = \"2days\" }",
            "1ms to 1day",
        ),
        (
            "get = \"/{id}\"\nsave = { dir = \"a\" }\n[endpoints.other]\nget = \"/o/{id}\"\nsave = { dir = \"a\" }",
            "saves into the folder of `file`",
        ),
        (
            "get = \"/{id}\"\nsave = {}\n[[endpoints.file.records]]\nkind = \"k\"\nkey = \"$.id\"",
            "it cannot have `records`",
        ),
    ] {
        let found = problems(rest);
        assert!(found.contains(text), "{rest}: {found}");
        assert!(found.starts_with("s.toml:"), "{found}");
    }
}

#[test]
fn what_is_no_such_file_is_malformed() {
    let any = site("get = \"/{id}\"\nsave = {}");
    let images = site("get = \"/{id}\"\nsave = { types = \"image/*\" }");
    let png: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR";
    for (site, answer, outcome) in [
        (
            &any,
            answer(200, "application/pdf", b"%PDF-1.4"),
            Outcome::Ok,
        ),
        (&any, answer(200, "", b"bytes"), Outcome::Ok),
        (&any, answer(200, "", b""), Outcome::Malformed),
        (&any, answer(200, "text/html", b"<p>"), Outcome::Malformed),
        (
            &any,
            answer(200, "application/json", b"{}"),
            Outcome::Malformed,
        ),
        (&any, answer(404, "text/html", b"<p>"), Outcome::Gone),
        (&images, answer(200, "image/png", png), Outcome::Ok),
        (
            &images,
            answer(200, "application/octet-stream", png),
            Outcome::Ok,
        ),
        (
            &images,
            answer(200, "image/png", b"<html>"),
            Outcome::Malformed,
        ),
        (&images, answer(200, "video/mp4", b"x"), Outcome::Malformed),
        (
            &images,
            answer(206, "application/octet-stream", b"x"),
            Outcome::Ok,
        ),
    ] {
        assert_eq!(site.classify(&task("7"), &answer), outcome, "{answer:?}");
    }
}
