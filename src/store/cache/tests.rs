use std::path::Path;

use super::db::CacheDb;
use super::*;
use crate::model::UnixMillis;

const HOUR: i64 = 3_600_000;

fn store(directory: &Path, max: u64) -> CacheStore {
    let log = Logger::root(slog::Discard, slog::o!());
    CacheStore::new(StateFolder::of(Some(directory.to_owned())), max, log)
}

fn entry(text: &str) -> CacheEntry {
    CacheEntry {
        description: format!("about {text}"),
        body: Bytes::copy_from_slice(text.as_bytes()),
    }
}

/// What does not pack.
fn noise(bytes: usize) -> CacheEntry {
    let mut random = fastrand::Rng::with_seed(7);
    let body = std::iter::repeat_with(|| random.u8(..))
        .take(bytes)
        .collect();
    CacheEntry {
        description: String::new(),
        body,
    }
}

#[tokio::test]
async fn entries_outlive_the_store_and_kinds_are_apart() {
    let directory = tempfile::tempdir().unwrap();
    let one = store(&directory.path().join("deep/state"), 1 << 20);
    assert_eq!(one.get(CacheKind::Answer, "a").await, None);
    one.put(CacheKind::Answer, "a", entry("1"));
    one.put(CacheKind::Answer, "a", entry("2"));
    one.put(CacheKind::Robots, "a", entry("3"));
    one.put(CacheKind::Robots, "b", entry("4"));
    one.remove(CacheKind::Robots, "b");
    one.put(CacheKind::Answer, "c", entry("5"));
    one.describe(CacheKind::Answer, "c", "new".to_owned());
    one.describe(CacheKind::Answer, "d", "nothing".to_owned());
    one.flush().await;
    drop(one);
    let two = store(&directory.path().join("deep/state"), 1 << 20);
    assert_eq!(two.get(CacheKind::Answer, "a").await, Some(entry("2")));
    assert_eq!(two.get(CacheKind::Robots, "a").await, Some(entry("3")));
    assert_eq!(two.get(CacheKind::Robots, "b").await, None);
    let described = CacheEntry {
        description: "new".to_owned(),
        ..entry("5")
    };
    assert_eq!(two.get(CacheKind::Answer, "c").await, Some(described));
    assert_eq!(two.get(CacheKind::Answer, "d").await, None);
}

#[cfg(unix)]
#[tokio::test]
async fn the_file_is_its_users_alone() {
    use std::os::unix::fs::PermissionsExt;
    let directory = tempfile::tempdir().unwrap();
    let store = store(directory.path(), 1 << 20);
    store.put(CacheKind::Answer, "a", entry("1"));
    store.flush().await;
    for end in ["", "-wal"] {
        let file = directory.path().join(format!("{CACHE_FILE}{end}"));
        let mode = std::fs::metadata(file).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{end}");
    }
}

#[tokio::test]
async fn nothing_is_made_before_it_is_needed_and_none_keeps_nothing() {
    let parent = tempfile::tempdir().unwrap();
    let directory = parent.path().join("state");
    let store = store(&directory, 1 << 20);
    store.flush().await;
    assert!(!directory.exists());
    let none = CacheStore::none();
    none.put(CacheKind::Answer, "a", entry("1"));
    none.flush().await;
    assert_eq!(none.get(CacheKind::Answer, "a").await, None);
}

#[tokio::test]
async fn a_directory_that_cannot_be_used_is_an_empty_cache() {
    let parent = tempfile::tempdir().unwrap();
    let file = parent.path().join("file");
    std::fs::write(&file, "").unwrap();
    let store = store(&file, 1 << 20);
    store.put(CacheKind::Answer, "a", entry("1"));
    store.flush().await;
    assert_eq!(store.get(CacheKind::Answer, "a").await, None);
}

#[tokio::test]
async fn a_file_that_is_no_database_is_made_anew() {
    let directory = tempfile::tempdir().unwrap();
    let text = "this is no database, by any means at all. ".repeat(200);
    std::fs::write(directory.path().join(CACHE_FILE), text).unwrap();
    let store = store(directory.path(), 1 << 20);
    store.put(CacheKind::Answer, "a", entry("1"));
    assert_eq!(store.get(CacheKind::Answer, "a").await, Some(entry("1")));
}

#[test]
fn a_damaged_entry_is_gone() {
    let directory = tempfile::tempdir().unwrap();
    let mut db = CacheDb::open(directory.path(), 1 << 20).unwrap();
    let now = UnixMillis(0);
    db.put(CacheKind::Answer, "a", &entry("some text"), now)
        .unwrap();
    for change in [
        "body = x'00'",
        "length = length + 1",
        "length = -1",
        "body = x''",
    ] {
        db.put(CacheKind::Answer, "a", &entry("some text"), now)
            .unwrap();
        let raw = rusqlite::Connection::open(directory.path().join(CACHE_FILE)).unwrap();
        raw.execute(&format!("UPDATE entry SET {change}"), [])
            .unwrap();
        assert_eq!(
            db.get(CacheKind::Answer, "a", now).unwrap(),
            None,
            "{change}"
        );
        assert_eq!(db.taken(CacheKind::Answer).unwrap(), 0, "{change}");
    }
}

#[test]
fn what_was_not_used_for_longest_goes_first_and_the_size_is_bounded() {
    let directory = tempfile::tempdir().unwrap();
    let max = 1 << 20;
    let mut db = CacheDb::open(directory.path(), max).unwrap();
    let body = noise(50_000);
    let (mut most, mut now) = (0, 0);
    db.begin().unwrap();
    db.put(CacheKind::Robots, "robots", &body, UnixMillis(0))
        .unwrap();
    db.commit(UnixMillis(0)).unwrap();
    for number in 0..100 {
        now += 2 * HOUR;
        db.begin().unwrap();
        db.put(
            CacheKind::Answer,
            &number.to_string(),
            &body,
            UnixMillis(now),
        )
        .unwrap();
        let first = db.get(CacheKind::Answer, "0", UnixMillis(now)).unwrap();
        assert!(first.is_some(), "used all the time, gone at {number}");
        db.commit(UnixMillis(now)).unwrap();
        most = most.max(db.taken(CacheKind::Answer).unwrap());
    }
    assert!(most <= max, "{most}");
    let now = UnixMillis(now);
    assert!(db.get(CacheKind::Answer, "99", now).unwrap().is_some());
    assert!(db.get(CacheKind::Answer, "50", now).unwrap().is_none());
    assert!(
        db.get(CacheKind::Robots, "robots", now).unwrap().is_some(),
        "has a room of its own"
    );
    let disk = std::fs::metadata(directory.path().join(CACHE_FILE))
        .unwrap()
        .len();
    assert!(disk < 2 * max, "{disk} bytes on disk");
}

#[test]
fn what_is_too_large_is_not_kept_and_what_is_old_goes() {
    let directory = tempfile::tempdir().unwrap();
    let mut db = CacheDb::open(directory.path(), 1 << 20).unwrap();
    db.begin().unwrap();
    db.put(CacheKind::Answer, "a", &entry("old"), UnixMillis(0))
        .unwrap();
    db.put(CacheKind::Answer, "a", &noise(200_000), UnixMillis(0))
        .unwrap();
    assert_eq!(db.get(CacheKind::Answer, "a", UnixMillis(0)).unwrap(), None);
    db.put(CacheKind::Answer, "b", &entry("kept"), UnixMillis(0))
        .unwrap();
    db.commit(UnixMillis(0)).unwrap();
    drop(db);
    let mut db = CacheDb::open(directory.path(), 1 << 20).unwrap();
    let later = UnixMillis(181 * 24 * HOUR);
    db.begin().unwrap();
    db.commit(later).unwrap();
    assert_eq!(db.get(CacheKind::Answer, "b", later).unwrap(), None);
}
