use encoding_rs::{BIG5, EUC_KR, GB18030, GBK, SHIFT_JIS, WINDOWS_1251};
use proptest::prelude::*;

use super::{Cow, Encoding, Headers, UTF_8, WINDOWS_1252, json, page};

const CHINESE: &str =
    "<p>今天天气很好，我们一起去公园散步。中文网页的编码必须正确识别，否则就会出现乱码。</p>";
const TRADITIONAL: &str =
    "<p>今天天氣很好，我們一起去公園散步。這個網頁使用繁體中文，編碼必須正確識別。</p>";
const JAPANESE: &str =
    "<p>今日は天気がいいので、みんなで公園へ散歩に行きました。文字コードの判定です。</p>";
const KOREAN: &str =
    "<p>오늘은 날씨가 좋아서 우리 모두 공원으로 산책을 갔습니다. 한글 인코딩입니다.</p>";
const RUSSIAN: &str = "<p>Сегодня хорошая погода, и мы все вместе пошли гулять в парк.</p>";

fn headers(content_type: Option<&[u8]>) -> Headers {
    let field = |value: &[u8]| ("content-type".to_owned(), value.to_vec().into());
    Headers(content_type.map(field).into_iter().collect())
}

fn read(body: &[u8], content_type: Option<&str>) -> (String, String, u64) {
    let decoded = page(body, &headers(content_type.map(str::as_bytes)));
    (
        decoded.text.into_owned(),
        decoded.encoding,
        decoded.replaced,
    )
}

fn text(body: &[u8], content_type: Option<&str>) -> String {
    read(body, content_type).0
}

fn in_encoding(text: &str, encoding: &'static Encoding) -> Vec<u8> {
    let (bytes, _, unmappable) = encoding.encode(text);
    assert!(!unmappable, "{text}");
    bytes.into_owned()
}

#[test]
fn l49_the_order_is_mark_header_meta_guess() {
    let gbk = in_encoding(CHINESE, GBK);
    // The header decides, right or wrong.
    assert_eq!(text(&gbk, Some("text/html; charset=gbk")), CHINESE);
    assert_ne!(text(&gbk, Some("text/html; charset=big5")), CHINESE);
    let lies = [b"<meta charset=gbk>".as_slice(), CHINESE.as_bytes()].concat();
    assert!(text(&lies, Some("text/html; charset=utf-8")).ends_with(CHINESE));
    // Then the page's own word.
    let says = [b"<meta charset=gbk>".as_slice(), &gbk].concat();
    assert!(text(&says, Some("text/html")).ends_with(CHINESE));
    // A mark beats both.
    let marked = [b"\xef\xbb\xbf".as_slice(), &lies].concat();
    assert!(text(&marked, Some("text/html; charset=gbk")).ends_with(CHINESE));
    assert!(!text(&marked, None).starts_with('\u{feff}'));
    let utf16: Vec<u8> = [0xfeff]
        .into_iter()
        .chain(CHINESE.encode_utf16())
        .flat_map(u16::to_be_bytes)
        .collect();
    assert_eq!(text(&utf16, Some("text/html; charset=gbk")), CHINESE);
}

#[test]
fn l49_what_nobody_names_is_guessed() {
    for (expected, encoding) in [
        (CHINESE, GBK),
        (CHINESE, GB18030),
        (TRADITIONAL, BIG5),
        (JAPANESE, SHIFT_JIS),
        (JAPANESE, encoding_rs::EUC_JP),
        (KOREAN, EUC_KR),
        (RUSSIAN, WINDOWS_1251),
        ("<p>déjà vu à l’école, ça va très bien", WINDOWS_1252),
        (CHINESE, UTF_8),
    ] {
        let bytes = in_encoding(expected, encoding);
        assert_eq!(text(&bytes, None), expected, "{}", encoding.name());
        assert_eq!(text(&bytes, Some("text/html")), expected);
    }
}

#[test]
fn l49_unknown_labels_leave_it_to_the_next_step() {
    let gbk = in_encoding(CHINESE, GBK);
    for label in [
        "GB-18030",
        "ISO-88509-1",
        "nonsense",
        "",
        "hz-gb-2312",
        "none",
    ] {
        let content_type = format!("text/html; charset={label}");
        assert_eq!(text(&gbk, Some(&content_type)), CHINESE, "{label}");
        let says = format!("<meta charset='{label}'><meta charset=gbk>");
        let body = [says.as_bytes(), &gbk].concat();
        assert!(
            text(&body, Some(&content_type)).ends_with(CHINESE),
            "{label}"
        );
    }
}

#[test]
fn l49_labels_of_every_spelling() {
    let gbk = in_encoding(CHINESE, GBK);
    for content_type in [
        "text/html; Charset=gb2312",
        "text/html;CHARSET=\"GBK\"",
        "text/html; charset='gbk'",
        "text/html; charset = gb18030 ; x=y",
        "text/html; boundary=a; charset=x-gbk",
        "text/html, text/html; charset=gb_2312-80",
        "text/html; charset=nonsense; charset=gbk",
    ] {
        assert_eq!(text(&gbk, Some(content_type)), CHINESE, "{content_type}");
    }
    // Four bytes of GB18030 under the labels that mean less.
    let rare = in_encoding("<p>\u{20087}ÿé", GB18030);
    assert_eq!(
        text(&rare, Some("text/html; charset=gb2312")),
        "<p>\u{20087}ÿé"
    );
    // Bytes that are no ASCII, in the header itself.
    let raw = page(
        &gbk,
        &headers(Some(b"text/html; name=\xd6\xd0; charset=gbk")),
    );
    assert_eq!(raw.text, CHINESE);
    let raw = page(&gbk, &headers(Some(b"text/html; charset=\xd6\xd0")));
    assert_eq!(raw.text, CHINESE);
}

#[test]
fn l49_a_meta_counts_in_the_first_1024_bytes() {
    // So short that a guess goes wrong.
    let tail = in_encoding("中", BIG5);
    for (before, found) in [(900, true), (1005, true), (1006, false), (3000, false)] {
        let body = [" ".repeat(before).as_bytes(), b"<meta charset=big5>", &tail].concat();
        assert_eq!(text(&body, None).ends_with('中'), found, "{before}");
    }
}

#[test]
fn l49_only_the_page_s_own_word_counts() {
    let sjis = in_encoding("日", SHIFT_JIS);
    let named = |markup: &str| {
        let body = [markup.as_bytes(), &sjis].concat();
        page(&body, &headers(None)).encoding
    };
    for markup in [
        "<meta http-equiv=Content-Type content='text/html; charset=shift_jis'>",
        "<META CONTENT=\"text/html;Charset = 'shift_jis'\" HTTP-EQUIV=\"content-type\">",
        "<meta/charset=shift_jis>",
        "<meta name=x content=y charset=sjis>",
        "<!-- <meta charset=gbk> --><meta charset=shift_jis>",
        "<script src='/a.js?charset=gbk'></script><meta charset=shift_jis>",
        "<script>document.write('<meta charset=gbk>')</script><meta charset=shift_jis>",
        "<link href='x?<meta charset=gbk>'><meta charset=shift_jis>",
        "<meta content='text/html; charset=gbk'><meta charset=shift_jis>",
        "<meta name=charset content=gbk><meta charset=shift_jis>",
        "<meta charset=nonsense http-equiv=content-type content='x; charset=shift_jis'>",
        "<?xml version='1.0' encoding='shift_jis'?><html>",
    ] {
        assert_eq!(named(markup), "shift_jis", "{markup}");
    }
    for markup in [
        "<script src='/a.js?charset=shift_jis'></script>",
        "<a href='?charset=shift_jis'>x</a> charset=shift_jis",
        "<!-- <meta charset=shift_jis> -->",
        "<meta http-equiv=refresh content='0; charset=shift_jis'>",
        "<metal charset=shift_jis>",
        "<meta charset='shift_jis",
        "<meta charset",
        "<meta",
    ] {
        assert_ne!(named(markup), "shift_jis", "{markup}");
    }
    // It was read as ASCII, so it is none of UTF-16.
    assert_eq!(named("<meta charset=utf-16>"), "utf-8");
    assert_eq!(named("<meta charset=x-user-defined>"), "windows-1252");
}

#[test]
fn l49_replacements_are_counted() {
    let broken = [b"<p>a\xff\xffb\x80".as_slice(), "\u{fffd}".as_bytes()].concat();
    let (text, encoding, replaced) = read(&broken, Some("text/html; charset=utf-8"));
    assert_eq!((encoding.as_str(), replaced), ("utf-8", 3));
    assert_eq!(text.matches('\u{fffd}').count(), 4);
    let wrong = in_encoding(&CHINESE.repeat(300), GBK);
    let (text, _, replaced) = read(&wrong, Some("text/html; charset=utf-8"));
    assert_eq!(text.matches('\u{fffd}').count() as u64, replaced);
    assert_eq!(read(CHINESE.as_bytes(), None).2, 0);
}

#[test]
fn one_character_cut_in_the_middle_does_not_spoil_a_page() {
    let mut body = CHINESE.as_bytes().to_vec();
    body.extend_from_slice(&"散".as_bytes()[..2]);
    body.extend_from_slice(b"...</p>");
    let (text, encoding, replaced) = read(&body, None);
    assert_eq!((encoding.as_str(), replaced), ("utf-8", 1));
    assert!(text.starts_with(CHINESE));
}

#[test]
fn json_is_utf8_unless_it_is_not() {
    let value = format!("{{\"text\": \"{CHINESE}\"}}");
    let read = |body: &[u8], content_type: Option<&str>| {
        let headers = headers(content_type.map(str::as_bytes));
        json(body, &headers).text.into_owned()
    };
    let gbk = in_encoding(&value, GBK);
    assert_eq!(
        read(value.as_bytes(), Some("application/json; charset=gbk")),
        value
    );
    assert_eq!(
        read(&[b"\xef\xbb\xbf", value.as_bytes()].concat(), None),
        value
    );
    assert_eq!(read(&gbk, Some("application/json; charset=gbk")), value);
    assert_eq!(read(&gbk, Some("application/json")), value);
    let utf16: Vec<u8> = [0xfeff]
        .into_iter()
        .chain(value.encode_utf16())
        .flat_map(u16::to_le_bytes)
        .collect();
    assert_eq!(read(&utf16, None), value);
}

#[test]
fn utf8_is_not_copied() {
    let headers = headers(Some(b"text/html; charset=utf-8"));
    let page = page("é".as_bytes(), &headers);
    assert!(matches!(page.text, Cow::Borrowed(_)));
}

proptest! {
    #[test]
    fn any_bytes_become_a_text_and_every_replacement_is_counted(
        start in prop::sample::select(vec![
            "", "<meta charset=", "<meta http-equiv=content-type content='", "<?xml encoding=", "<!--", "<script>",
            "\u{feff}", "<meta charset=gbk>", "<meta charset=iso-2022-jp>", "<meta charset=euc-kr>",
        ]),
        tail in prop::collection::vec(any::<u8>(), 0..300),
        content_type in prop::option::of(prop::collection::vec(any::<u8>(), 0..40)),
    ) {
        let body = [start.as_bytes(), &tail].concat();
        let headers = headers(content_type.as_deref());
        let page = page(&body, &headers);
        let encoding = Encoding::for_label(page.encoding.as_bytes()).unwrap();
        let marks = page.text.matches('\u{fffd}').count() as u64;
        prop_assert!(page.replaced <= marks, "{}", encoding.name());
        json(&body, &headers);
    }

    #[test]
    fn what_is_written_in_an_encoding_is_read_back_by_its_label(
        text in "[a-z<> \u{4e00}-\u{4fff}]{0,60}",
        encoding in prop::sample::select(vec![GBK, GB18030, UTF_8]),
    ) {
        let body = in_encoding(&text, encoding);
        let content_type = format!("text/html; charset={}", encoding.name());
        prop_assert_eq!(read(&body, Some(&content_type)).0, text);
    }
}
