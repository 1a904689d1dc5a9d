use proptest::prelude::*;
use scraper::{Html, Selector};
use url::Url;

use super::*;

const HOST: &str = "127.0.0.1:8080";

fn get(site: &HtmlSite, target: &str) -> Answer {
    site.answer(&Request {
        method: "GET",
        target,
        host: HOST,
        content_type: "",
        range: "",
        if_range: "",
        body: b"",
    })
}

fn target_of(url: &Url) -> String {
    url[url::Position::BeforePath..url::Position::AfterQuery].to_owned()
}

/// A plain walk: all links of all pages in scope, redirects followed, robots.txt by hand.
/// Gives the pages stored and everything that was asked.
fn walk(site: &HtmlSite) -> (BTreeSet<String>, BTreeSet<String>) {
    let start = Url::parse(&format!("http://{HOST}/")).unwrap();
    let links = Selector::parse("a, area, iframe, link[rel=next], link[rel=canonical]").unwrap();
    let (mut stored, mut asked) = (BTreeSet::new(), BTreeSet::new());
    let mut todo = vec![start.clone()];
    while let Some(url) = todo.pop() {
        let target = target_of(&url);
        let allowed = !target.starts_with("/private/") || target == OPEN;
        if url.origin() != start.origin() || !allowed || !asked.insert(target.clone()) {
            continue;
        }
        let answer = get(site, &target);
        if (300..400).contains(&answer.status) {
            todo.push(url.join(&answer.headers[0].1).unwrap());
        } else if answer.status == 200 && answer.content_type.starts_with("text/html") {
            let page = Html::parse_document(std::str::from_utf8(&answer.body).unwrap());
            let hrefs = page
                .select(&links)
                .filter_map(|link| link.attr("href").or(link.attr("src")));
            todo.extend(hrefs.filter_map(|href| url.join(href).ok()));
            stored.insert(target);
        }
    }
    (stored, asked)
}

#[test]
fn traps_of_every_kind_are_met() {
    let (_, asked) = walk(&HtmlSite::new(5, 200));
    let site = HtmlSite::new(5, 200);
    let mut classes: BTreeSet<usize> = asked.iter().map(|target| site.class_of(target)).collect();
    assert_eq!(classes, BTreeSet::from([0, 1, 2, 5]));
    for prefix in ["/r/", "/r2/", "/loop/b", "/away/", "/peek", OPEN, "/list?"] {
        assert!(
            asked.iter().any(|target| target.starts_with(prefix)),
            "{prefix}"
        );
    }
    let text: String = (0..200).map(|page| site.page(page, HOST)).collect();
    assert!(text.contains("/private/8.html") && text.contains("localhost:8080/offsite/2"));
    classes.clear();
    classes.extend(["/private/8.html", "/offsite/2"].map(|target| site.class_of(target)));
    assert_eq!(classes, BTreeSet::from([3, 4]));
}

#[test]
fn a_page_has_one_name_and_its_size() {
    let site = HtmlSite {
        page_bytes: 8_000,
        ..HtmlSite::new(5, 30)
    };
    assert_eq!(site.page_at(&path(9)), Some(9));
    assert_eq!(path(9), "/list?kind=a&page=9");
    for target in [
        "/list?page=9&kind=a",
        "/list?kind=a&page=09",
        "/s1/d1/page-01.html",
        "/s3/d0/page-30.html",
    ] {
        assert_eq!(get(&site, target).status, 404, "{target}");
    }
    let len = get(&site, &path(9)).body.len();
    assert!((8_000..8_200).contains(&len), "{len}");
}

#[test]
fn the_other_name_of_the_server_is_another() {
    assert_eq!(other_host("127.0.0.1:80"), "localhost:80");
    assert_eq!(other_host("LocalHost:80"), "127.0.0.1:80");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// A plain walk stores what the oracle says, whatever seed and size.
    #[test]
    fn a_plain_walk_stores_what_is_expected(seed: u64, pages in 1_u32..150) {
        let site = HtmlSite { page_bytes: 0, ..HtmlSite::new(seed, pages) };
        prop_assert_eq!(walk(&site).0, site.expected());
    }
}
