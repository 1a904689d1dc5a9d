//! What reading one page costs in `crawl` mode: 8 KB of HTML with ten links.

use std::hint::black_box;
use std::time::Duration;

use bytes::Bytes;
use crawler_node::model::{Answer, CrawlRules, Headers, Job, Params, Task, TaskKey};
use crawler_node::site::{CrawlSite, Reader, Site, page_links};
use criterion::{Criterion, criterion_group, criterion_main};
use url::Url;

fn page() -> String {
    let mut html = String::from(
        "<!DOCTYPE html><html><head><meta charset=\"utf-8\"><title>Page 17</title></head><body><ul>",
    );
    for link in 0..10 {
        html.push_str(&format!(
            "<li><a href=\"/p/{}.html\">link {link}</a></li>",
            link * 977
        ));
    }
    html.push_str("</ul>");
    while html.len() < 8150 {
        html.push_str("<p>Lorem ipsum dolor sit amet, consectetur adipiscing elit, sed do eiusmod tempor.</p>\n");
    }
    html.push_str("</body></html>");
    html
}

fn links(criterion: &mut Criterion) {
    let html = page();
    criterion.bench_function("links and title of an 8 KB page", |bencher| {
        bencher.iter(|| page_links(black_box(&html)));
    });
    let starts = ["http://127.0.0.1:8080/".to_owned()];
    let site = CrawlSite::new("web", &CrawlRules::default(), &starts, None)
        .expect("rules without patterns");
    let mut params = Params::new();
    params.insert("url".to_owned(), "http://127.0.0.1:8080/p/1.html".into());
    let task = Task {
        id: 1,
        lease: 1,
        site: "web".into(),
        endpoint: "page".into(),
        params,
        lane: "127.0.0.1:8080".into(),
        priority: 1,
        depth: 1,
        attempts: 0,
        list: None,
    };
    let answer = Answer {
        url: Url::parse("http://127.0.0.1:8080/p/1.html").expect("a URL"),
        status: 200,
        headers: Headers(vec![(
            "content-type".to_owned(),
            Bytes::from_static(b"text/html"),
        )]),
        body: html.clone().into(),
        notes: Vec::new(),
        head_time: Duration::ZERO,
        total_time: Duration::ZERO,
    };
    let job = Job::crawl(starts);
    for (name, known) in [
        ("read a page, all links known", true),
        ("read a page, all links new", false),
    ] {
        let known = move |_: &TaskKey, _: u32| known;
        criterion.bench_function(name, |bencher| {
            bencher.iter(|| {
                site.read(
                    black_box(&task),
                    black_box(&answer),
                    &Reader {
                        job: &job,
                        known: &known,
                    },
                )
            });
        });
    }
}

criterion_group!(benches, links);
criterion_main!(benches);
