//! Tests of link extraction: each element that counts and each that does not, and agreement with a full HTML parser.

use proptest::prelude::*;
use scraper::{Html, Selector};

use super::*;

fn links(html: &str) -> Vec<String> {
    page_links(html)
        .links
        .into_iter()
        .map(Cow::into_owned)
        .collect()
}

fn title(html: &str) -> Option<String> {
    page_links(html).title
}

#[test]
fn the_elements_that_count() {
    for html in [
        "<a href=x>",
        "<A HREF='x'>",
        "<area href=\"x\">",
        "<iframe src=x></iframe>",
        "<frame src=x>",
        "<link rel=next href=x>",
        "<link rel=prev href=x>",
        "<link rel='me canonical' href=x>",
        "<link rel=alternate href=x>",
        "<link rel=alternate type='text/html; charset=x' href=x>",
        "<a\nclass=\"a>b\" href = x>",
        "<a/href=x>",
        "<a href=x",
        "<noscript><a href=x></noscript>",
        "<svg><a href=x></a></svg>",
        "<a title='>' href=x>",
        "<a href=x href=y>",
        "<meta http-equiv=refresh content='0; url=x'>",
        "<meta http-equiv=' Refresh ' content=\"30;URL='x'\">",
        "<meta content=0;x http-equiv=refresh>",
    ] {
        // The page that ends inside a tag has no such tag.
        let wanted: &[&str] = if html == "<a href=x" { &[] } else { &["x"] };
        assert_eq!(links(html), wanted, "{html}");
    }
}

#[test]
fn the_elements_that_do_not() {
    for html in [
        "<a>x</a>",
        "<a name=href>",
        "<img src=x>",
        "<script src=x></script>",
        "<link rel=stylesheet href=x>",
        "<link rel='alternate stylesheet' href=x>",
        "<link href=x>",
        "<link rel=icon href=x>",
        "<link rel=alternate type=application/rss+xml href=x>",
        "<a rel='external NoFollow' href=x>",
        "<!-- <a href=x> -->",
        "<!--><!-- <a href=x> -->",
        "<script>'<a href=x>'</script>",
        "<style><a href=x></style>",
        "<textarea><a href=x></textarea>",
        "<title><a href=x></title>",
        "<iframe><a href=x></iframe>",
        "<xmp><a href=x></xmp>",
        "<plaintext><a href=x>",
        "<script><!-- <script> </script> <a href=x> --></script>",
        "</a href=x>",
        "< a href=x>",
        "<!a href=x>",
        "<?a href=x>",
        "<form action=x>",
        "<abbr href=x>",
        "<meta name=robots content='noindex, NoFollow'><a href=x>",
        "<a href=x><meta name=ROBOTS content=none>",
        "<meta http-equiv=refresh content=30>",
        "<meta http-equiv=refresh>",
        "<meta http-equiv=set-cookie content='0;url=x'>",
        "<meta name=refresh content='0;url=x'>",
        "<meta http-equiv=refresh content='0;url=x'><meta name=robots content=nofollow>",
    ] {
        assert!(links(html).is_empty(), "{html}");
    }
    assert_eq!(links("<meta name=robots content=noindex><a href=x>"), ["x"]);
    assert_eq!(links("<script><!-- x --></script><a href=x>"), ["x"]);
    assert_eq!(links("<svg><style></svg><a href=x>"), ["x"]);
    assert_eq!(links("<svg><title><p><a href=x>"), ["x"]);
}

#[test]
fn references_are_decoded() {
    for (given, wanted) in [
        ("a?b=1&amp;c=2", "a?b=1&c=2"),
        ("a?b=1&c=2", "a?b=1&c=2"),
        ("a?b=1&copy=2", "a?b=1&copy=2"),
        ("a?b=1&copy;2", "a?b=1\u{a9}2"),
        ("a&#x2F;b&#47;c", "a/b/c"),
        ("a&&amp;", "a&&"),
        ("a&notit;", "a&notit;"),
        ("a&eacute;'", "aé'"),
        ("a& b", "a& b"),
    ] {
        assert_eq!(links(&format!("<a href=\"{given}\">")), [wanted], "{given}");
    }
    assert_eq!(links("<a href='x&eacute;\"'>"), ["xé\""]);
}

#[test]
fn the_title_is_the_first_and_readable() {
    assert_eq!(
        title("<title> a\n b </title><title>c</title>").as_deref(),
        Some("a b")
    );
    assert_eq!(
        title("<TITLE>x &lt;b&gt; &eacute;&#8211;&notit;</TITLE >").as_deref(),
        Some("x <b> é–¬it;")
    );
    assert_eq!(
        title("<svg><title>no</title></svg><title>yes</title>").as_deref(),
        Some("yes")
    );
    assert_eq!(
        title("<title>a</titlex></title>").as_deref(),
        Some("a</titlex>")
    );
    assert_eq!(title("<p>"), None);
}

#[test]
fn each_link_comes_once_in_order() {
    assert_eq!(links("<a href=b><a href=a><a href=b>"), ["b", "a"]);
}

/// What a full parser finds: elements in the tree, with `nofollow` and repetitions taken out.
fn of_tree(html: &str) -> Vec<String> {
    let tree = Html::parse_document(html);
    let selector = Selector::parse("a[href], area[href], iframe[src]").unwrap();
    let mut found = Vec::new();
    for element in tree.select(&selector) {
        let value = element
            .attr("href")
            .or_else(|| element.attr("src"))
            .unwrap()
            .to_owned();
        let refused = element
            .attr("rel")
            .is_some_and(|rel| has_word(rel.as_bytes(), "nofollow"));
        if !refused && !found.contains(&value) {
            found.push(value);
        }
    }
    found.sort();
    found
}

const PIECES: [&str; 46] = [
    "<a href=1>",
    "</a>",
    "<a href=\"2&amp;x\">",
    "<a href='3'",
    ">",
    "<a class=x href=4 />",
    "<p>",
    "</p>",
    "<div>",
    "</div>",
    "<script>",
    "</script>",
    "<!--",
    "-->",
    "--!>",
    "<!-->",
    "<style>",
    "</style>",
    "<textarea>",
    "</textarea>",
    "<title>",
    "</title>",
    "<iframe src=5>",
    "</iframe>",
    "<svg><style><a href=11></a></style></svg>",
    "<svg><title><p>x</p></title><a href=12 /></svg>",
    "<b title=\"",
    "\"",
    "'",
    " text & more ",
    "<",
    "</",
    "<!doctype html>",
    "<![CDATA[",
    "]]>",
    "<area href=6>",
    "<math><mi>x</mi><mtext><a href=13></a></mtext></math>",
    "<svg/>",
    "<a rel=nofollow href=7>",
    "<a href=8 href=9>",
    "<a =href=10>",
    "</script",
    "<SCRIPT>",
    "<svg><foreignObject><p><a href=14></a></p></foreignObject></svg>",
    "<svg><![CDATA[<a href=15>]]></svg>",
    "=",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    #[test]
    fn a_full_parser_finds_the_same(pieces in proptest::collection::vec(0_usize..PIECES.len(), 0..14)) {
        let html: String = pieces.iter().map(|index| PIECES[*index]).collect();
        let mut found = links(&html);
        found.sort();
        prop_assert_eq!(found, of_tree(&html), "{}", html);
    }

    #[test]
    fn any_text_is_read_without_panic(html in "[<>/!\\-a-z=\"' &;#]{0,60}") {
        let _ = page_links(&html);
    }

    #[test]
    fn references_agree_with_a_full_parser(value in "[a-z&;#x0-9=]{0,16}") {
        let html = format!("<a href=\"x{value}\">");
        prop_assert_eq!(links(&html), of_tree(&html));
        let html = format!("<title>x{value}</title>");
        let tree = Html::parse_document(&html);
        let text: String = tree.select(&Selector::parse("title").unwrap()).next().unwrap().text().collect();
        prop_assert_eq!(title(&html), Some(collapse(&text)));
    }
}
