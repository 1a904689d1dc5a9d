//! From the bytes on a socket to the text of a page: encodings named, misnamed and unnamed.

use crawler_node::model::{CrawlRules, Job, Mode, Params, Task};
use crawler_node::site::{CrawlSite, Reader, Site};
use encoding_rs::{BIG5, Encoding, GB18030, GBK, SHIFT_JIS, UTF_8};

use crate::support::{Then, only, reply};

/// What a page's record says: title, encoding, characters that could not be read.
async fn read(fields: &[u8], body: &[u8]) -> (String, String, u64) {
    let length = format!("\r\nContent-Length: {}\r\n\r\n", body.len());
    let bytes = [b"HTTP/1.1 200 OK\r\n", fields, length.as_bytes(), body].concat();
    let answer = only(reply(bytes, Then::Keep)).await.unwrap();
    let url = answer.url.to_string();
    let rules = CrawlRules::default();
    let site = CrawlSite::new("web", &rules, std::slice::from_ref(&url), None).unwrap();
    let mut params = Params::new();
    params.insert("url".to_owned(), url.into());
    let task = Task {
        id: 1,
        lease: 1,
        site: "web".into(),
        endpoint: "page".into(),
        params,
        lane: "h".into(),
        priority: 0,
        depth: 0,
        attempts: 0,
        list: None,
    };
    let job = Job::new(Mode::Crawl);
    let reader = Reader {
        job: &job,
        known: &|_, _| false,
    };
    let reading = site.read(&task, &answer, &reader).unwrap();
    let fields = &reading.records[0].fields;
    let text = |name: &str| fields[name].as_str().unwrap_or_default().to_owned();
    assert_eq!(fields["replaced"], reading.replaced);
    (text("title"), text("encoding"), reading.replaced)
}

fn page(before: &str, title: &str, encoding: &'static Encoding) -> Vec<u8> {
    let html = format!("{before}<title>{title}</title><p>{}", title.repeat(5));
    let (bytes, _, unmappable) = encoding.encode(&html);
    assert!(!unmappable);
    bytes.into_owned()
}

const CHINESE: &str = "中文网页的编码必须正确识别，否则就会出现乱码";
const TRADITIONAL: &str = "這個網頁使用繁體中文，編碼必須正確識別";
const JAPANESE: &str = "今日は天気がいいので、みんなで公園へ散歩に行きました";
/// With characters that only four bytes of GB18030 can say.
const RARE: &str = "𠂇ÿ中文网页的编码必须正确识别";

#[actix_rt::test]
async fn l49_one_text_in_every_encoding_under_every_label() {
    let html: &[u8] = b"Content-Type: text/html";
    for (title, encoding, label, read_as) in [
        (CHINESE, GBK, "gb2312", "gbk"),
        (CHINESE, GBK, "GBK", "gbk"),
        (RARE, GB18030, "gb18030", "gb18030"),
        (RARE, GB18030, "gb2312", "gbk"),
        (TRADITIONAL, BIG5, "Big5", "big5"),
        (JAPANESE, SHIFT_JIS, "Shift_JIS", "shift_jis"),
        (CHINESE, UTF_8, "utf8", "utf-8"),
    ] {
        let right = format!("Content-Type: text/html; Charset=\"{label}\"");
        let unknown = "Content-Type: text/html; charset=ISO-88509-1";
        let expected = (title.to_owned(), read_as.to_owned(), 0);
        let meta = format!("<meta charset=\"{label}\">");
        let bare = page("", title, encoding);
        let says = page(&meta, title, encoding);
        assert_eq!(read(right.as_bytes(), &bare).await, expected);
        assert_eq!(read(html, &says).await, expected);
        assert_eq!(read(unknown.as_bytes(), &says).await, expected);
        // By its look; the two of Chinese are one to a reader.
        assert_eq!(read(html, &bare).await.0, title);
        assert_eq!(read(unknown.as_bytes(), &bare).await.0, title);
    }
}

#[actix_rt::test]
async fn l49_header_against_meta_mark_against_header_and_the_1024_bytes() {
    let html: &[u8] = b"Content-Type: text/html";
    let utf8: &[u8] = b"Content-Type: text/html; charset=utf-8";
    let gbk: &[u8] = b"Content-Type: text/html; charset=gbk";
    let lies = page("<meta charset=big5>", CHINESE, UTF_8);
    assert_eq!(read(utf8, &lies).await.0, CHINESE);
    let marked = [b"\xef\xbb\xbf", &*lies].concat();
    assert_eq!(
        read(gbk, &marked).await,
        (CHINESE.to_owned(), "utf-8".to_owned(), 0)
    );
    // The header decides even where it is wrong, and the damage is counted.
    let (title, encoding, replaced) = read(utf8, &page("", CHINESE, GBK)).await;
    assert_ne!(title, CHINESE);
    assert_eq!(encoding, "utf-8");
    assert!(replaced > 100, "{replaced}");
    for (spaces, encoding) in [(900, "big5"), (3000, "utf-8")] {
        let before = format!("{}<meta charset=big5>", " ".repeat(spaces));
        assert_eq!(read(html, &page(&before, CHINESE, UTF_8)).await.1, encoding);
    }
}

#[actix_rt::test]
async fn l49_what_is_no_label_of_the_page() {
    let body = page("<script src='/a.js?charset=gbk'></script>", CHINESE, UTF_8);
    assert_eq!(read(b"Content-Type: text/html", &body).await.1, "utf-8");
    let raw = [b"Content-Type: text/html; name=\xd6\xd0; charset=gbk".as_slice()].concat();
    assert_eq!(read(&raw, &page("", CHINESE, GBK)).await.0, CHINESE);
    let broken = "<meta http-equiv=Content-Type content=\"text/html\" charset=\"gb2312\">";
    let body = page(broken, CHINESE, GBK);
    assert_eq!(read(b"Content-Type: text/html", &body).await.0, CHINESE);
}
