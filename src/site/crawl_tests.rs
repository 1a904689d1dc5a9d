//! Tests of mode `crawl`: what a page becomes, which links are followed, what redirects may do.

use std::time::Duration;

use super::*;
use crate::model::{Headers, Mode, Scope};

fn site(starts: &[&str], rules: CrawlRules) -> CrawlSite {
    let starts: Vec<String> = starts.iter().map(|text| (*text).to_owned()).collect();
    CrawlSite::new(CrawlSite::DEFAULT_NAME, &rules, &starts, None).unwrap()
}

fn answer(url: &str, content_type: Option<&str>, body: impl Into<Vec<u8>>) -> Answer {
    let fields = content_type.map(|value| ("content-type".to_owned(), value.to_owned().into()));
    Answer {
        url: Url::parse(url).unwrap(),
        status: 200,
        headers: Headers(fields.into_iter().collect()),
        body: body.into().into(),
        notes: Vec::new(),
        head_time: Duration::ZERO,
        total_time: Duration::ZERO,
    }
}

fn task(url: &str, depth: u32) -> Task {
    let mut params = Params::new();
    params.insert("url".to_owned(), url.into());
    Task {
        id: 1,
        lease: 1,
        site: "web".into(),
        endpoint: "page".into(),
        params,
        lane: "h:80".into(),
        priority: 0,
        depth,
        attempts: 0,
        list: None,
    }
}

fn read(
    site: &CrawlSite,
    task: &Task,
    answer: &Answer,
    known: &dyn Fn(&TaskKey, u32) -> bool,
) -> Reading {
    let job = Job::new(Mode::Crawl);
    site.read(task, answer, &Reader { job: &job, known })
        .unwrap()
}

fn urls(reading: &Reading) -> Vec<&str> {
    reading
        .follow
        .iter()
        .filter_map(|task| task.params["url"].as_str())
        .collect()
}

#[test]
fn a_page_becomes_a_record_and_tasks() {
    let site = site(&["http://h/"], CrawlRules::default());
    let page = answer(
        "http://h/a/b?x=1",
        Some("text/html; charset=utf-8"),
        "<title> A &amp; B </title><a href=c>1</a><a href=' c#frag '>2</a><a href=//h:80/a/c>3</a><a href=/%7Ed>4</a>\
         <a href=http://other/>5</a><a href=mailto:x@y>6</a><a href=javascript:1>7</a><a href=http://u:p@h/>8</a>",
    );
    let reading = read(&site, &task("http://h/asked", 2), &page, &|_, _| false);
    let fields = Value::from(reading.records[0].fields.clone());
    assert_eq!(
        fields,
        serde_json::json!({"url": "http://h/a/b?x=1", "requested_url": "http://h/asked", "status": 200,
            "title": "A & B", "depth": 2, "content_type": "text/html; charset=utf-8",
            "encoding": "utf-8", "replaced": 0, "robots": null})
    );
    assert_eq!(
        (&*reading.records[0].kind, reading.records[0].key.as_str()),
        ("page", "http://h/a/b?x=1")
    );
    // What is asked is what was linked, without users and fragments.
    assert_eq!(
        urls(&reading),
        ["http://h/a/c", "http://h/%7Ed", "http://h/"]
    );
    let first = &reading.follow[0];
    assert_eq!(
        (&*first.lane, first.priority, first.depth, first.list),
        ("h:80", 3, 3, false)
    );
    assert_eq!(first.key, TaskKey::of("web", "page", "http://h/a/c"));
}

#[test]
fn known_links_are_not_built_again() {
    let site = site(&["http://h/"], CrawlRules::default());
    let page = answer(
        "http://h/",
        Some("text/html"),
        "<a href=/a>1</a><a href=/b>2</a>",
    );
    let a = TaskKey::of("web", "page", "http://h/a");
    let reading = read(&site, &task("http://h/", 0), &page, &|key, depth| {
        *key == a && depth == 1
    });
    assert_eq!(urls(&reading), ["http://h/b"]);
}

#[test]
fn depth_is_bounded() {
    let rules = CrawlRules {
        max_depth: Some(1),
        ..CrawlRules::default()
    };
    let site = site(&["http://h/"], rules);
    let page = answer("http://h/", Some("text/html"), "<a href=/a>1</a>");
    assert_eq!(
        read(&site, &task("http://h/", 0), &page, &|_, _| false)
            .follow
            .len(),
        1
    );
    assert_eq!(
        read(&site, &task("http://h/", 1), &page, &|_, _| false)
            .follow
            .len(),
        0
    );
}

#[test]
fn the_base_of_the_page_is_respected() {
    let site = site(&["http://h/"], CrawlRules::default());
    let page = answer(
        "http://h/x/",
        Some("text/html"),
        "<a href=a>1</a><base href=/base/><base href=/no/>",
    );
    assert_eq!(
        urls(&read(&site, &task("http://h/x/", 0), &page, &|_, _| false)),
        ["http://h/base/a"]
    );
}

#[test]
fn only_html_is_read() {
    let site = site(&["http://h/"], CrawlRules::default());
    let html = "<!DOCTYPE html><title>t</title>";
    for (kind, wanted) in [
        (Some("text/html"), 1),
        (Some("Application/XHTML+XML"), 1),
        (None, 1),
        (Some("text/plain"), 0),
        (Some("application/pdf"), 0),
    ] {
        let reading = read(
            &site,
            &task("http://h/", 0),
            &answer("http://h/", kind, html),
            &|_, _| false,
        );
        assert_eq!(reading.records.len(), wanted, "{kind:?}");
    }
    let binary = answer("http://h/", None, vec![0, 1, 2]);
    assert!(
        read(&site, &task("http://h/", 0), &binary, &|_, _| false)
            .records
            .is_empty()
    );
}

#[test]
fn a_page_without_a_title_has_null_and_old_charsets_are_decoded() {
    let site = site(&["http://h/"], CrawlRules::default());
    let bare = answer("http://h/", Some("text/html"), "<p>x");
    assert_eq!(
        read(&site, &task("http://h/", 0), &bare, &|_, _| false).records[0].fields["title"],
        Value::Null
    );
    let old = answer(
        "http://h/",
        Some("text/html; charset=gbk"),
        b"<title>\xd6\xd0\xce\xc4</title>".to_vec(),
    );
    assert_eq!(
        read(&site, &task("http://h/", 0), &old, &|_, _| false).records[0].fields["title"],
        "中文"
    );
}

#[test]
fn seeds_are_canonical_once_each_and_bad_ones_are_listed() {
    let starts = ["http://H/a#x", "http://h/a", "nonsense", "ftp://h/"];
    let site = site(&starts, CrawlRules::default());
    let seeds = site.seeds(&Job::crawl(starts));
    assert_eq!(seeds.tasks.len(), 1);
    assert_eq!(
        (
            seeds.tasks[0].params["url"].as_str(),
            seeds.tasks[0].priority
        ),
        (Some("http://h/a"), 0)
    );
    let rejected: Vec<&str> = seeds
        .rejected
        .iter()
        .map(|(input, _)| input.as_str())
        .collect();
    assert_eq!(rejected, ["nonsense", "ftp://h/"]);
}

#[test]
fn a_task_is_asked_with_get() {
    let site = site(&["http://h/"], CrawlRules::default());
    let request = site.request(&task("http://h/a", 0)).unwrap();
    assert_eq!(request, Request::get(Url::parse("http://h/a").unwrap()));
    let mut empty = task("http://h/a", 0);
    empty.params.clear();
    assert!(site.request(&empty).is_err());
}

#[test]
fn redirects_stay_in_scope() {
    let site = site(
        &["http://h/"],
        CrawlRules {
            exclude: vec!["/no".to_owned()],
            ..CrawlRules::default()
        },
    );
    let redirect = |to: &str| site.redirect(&task("http://h/", 0), &Url::parse(to).unwrap());
    assert_eq!(
        redirect("https://h/x#y"),
        Redirect::Follow {
            url: Url::parse("https://h/x").unwrap(),
            claim: Some(Target {
                key: TaskKey::of("web", "page", "https://h/x"),
                params: moved(&task("http://h/", 0), &Url::parse("https://h/x").unwrap()),
            }),
            lane: "h:443".into(),
        }
    );
    for bad in ["http://other/", "http://h/no", "ftp://h/"] {
        assert!(matches!(redirect(bad), Redirect::Refuse(_)), "{bad}");
    }
}

#[test]
fn a_definition_adds_records_limits_and_starts() {
    let text = r#"
name = "shop"
base_url = "http://h/"
robots = "off"
headers = { cookie = "a=b" }
limits = { max_concurrency_num = 2 }
[modes.crawl]
urls = ["http://h/start"]
[[modes.crawl.records]]
match = "/item/"
each = "div.product"
kind = "product"
key = "@data-id"
fields = { name = "h2", price = { path = ".price", as = "number" }, image = { path = "img@src", as = "url" }, page = "{url}" }
"#;
    let definition = SiteDefinition::parse("shop.toml", text).unwrap();
    let site = CrawlSite::new(
        "shop",
        &CrawlRules {
            scope: Scope::Host,
            ..CrawlRules::default()
        },
        &[],
        Some(&definition),
    )
    .unwrap();
    assert_eq!(site.robots(), RobotsPolicy::Off);
    assert_eq!(site.limits().site.max_concurrency_num, Some(2));
    assert!(site.lanes_by_host());
    assert_eq!(
        site.seeds(&Job::new(Mode::Crawl)).tasks[0].params["url"],
        "http://h/start"
    );
    assert_eq!(
        site.request(&task("http://h/", 0)).unwrap().headers,
        [("cookie".to_owned(), "a=b".to_owned())]
    );
    let body = "<div class=product data-id=7><h2>A  <i>b</i></h2><b class=price>1,250</b><img src=i.png></div><div class=product>no id</div>";
    let page = answer("http://h/item/7", Some("text/html"), body);
    let reading = read(&site, &task("http://h/item/7", 1), &page, &|_, _| false);
    assert_eq!(reading.records.len(), 2);
    let product = &reading.records[1];
    assert_eq!((&*product.kind, product.key.as_str()), ("product", "7"));
    assert_eq!(
        Value::from(product.fields.clone()),
        serde_json::json!({"name": "A b", "price": 1250, "image": "http://h/item/i.png", "page": "http://h/item/7"})
    );
    let other = answer("http://h/list", Some("text/html"), body);
    assert_eq!(
        read(&site, &task("http://h/list", 1), &other, &|_, _| false)
            .records
            .len(),
        1
    );
}

#[test]
fn pages_are_known_by_their_canonical_form_and_asked_as_they_were_linked() {
    let rules = CrawlRules {
        urls: crate::model::UrlRules {
            query: crate::model::QueryRule::Sort,
            drop_params: vec!["utm_*".parse().unwrap()],
        },
        ..CrawlRules::default()
    };
    let site = site(&["http://h/?utm_id=1"], rules);
    let page = answer(
        "http://h/?utm_id=1#x",
        Some("text/html"),
        "<a href='/%7ea?b=2&a=1&utm_source=x'>1</a><a href='/~a?a=1&b=2'>2</a><a href=http://h./?utm_id=2>3</a>",
    );
    let reading = read(&site, &task("http://h/?utm_id=1", 0), &page, &|_, _| false);
    assert_eq!(
        urls(&reading),
        ["http://h/%7ea?b=2&a=1&utm_source=x", "http://h/?utm_id=2"]
    );
    let keys: Vec<TaskKey> = reading.follow.iter().map(|task| task.key).collect();
    let of = |url: &str| TaskKey::of("web", "page", url);
    assert_eq!(keys, [of("http://h/~a?a=1&b=2"), of("http://h/")]);
    assert_eq!(&*reading.follow[1].lane, "h:80", "one host, one lane");
    let record = &reading.records[0];
    assert_eq!(record.key, "http://h/");
    assert_eq!(record.fields["url"], "http://h/?utm_id=1");
}

#[test]
fn l47_a_password_in_a_start_url_is_refused_and_not_repeated() {
    let starts = ["http://u:secret@h/"];
    let seeds = site(&starts, CrawlRules::default()).seeds(&Job::crawl(starts));
    let (input, why) = &seeds.rejected[0];
    assert_eq!(input, "http://***@h/");
    assert!(why.contains("allowed"), "{why}");
}
