//! Tests of site definitions, most of them on the sample: what it asks, how it reads answers, and what is checked.

use std::time::Duration;

use serde_json::json;

use super::*;
use crate::model::{Headers, Method, StopReason, TaskKey};
use crate::settings::LimitSettings;

const SAMPLE: &str = include_str!("../../config/sites/example.toml");

fn sample() -> SiteDefinition {
    SiteDefinition::parse("example.toml", SAMPLE).unwrap()
}

fn task_of(new: NewTask) -> Task {
    Task {
        id: 1,
        lease: 1,
        site: "example".into(),
        endpoint: new.endpoint,
        params: new.params,
        lane: new.lane,
        priority: new.priority,
        depth: new.depth,
        attempts: 0,
        list: new.list.then(ListState::default),
    }
}

fn seed(job: &Job) -> Task {
    task_of(sample().seeds(job).tasks.remove(0))
}

fn answer(status: u16, body: &str) -> Answer {
    Answer {
        url: Url::parse("http://127.0.0.1:8080/api/x").unwrap(),
        status,
        headers: Headers(vec![("content-type".to_owned(), "application/json".into())]),
        body: body.to_owned().into(),
        notes: Vec::new(),
        head_time: Duration::ZERO,
        total_time: Duration::ZERO,
    }
}

fn read(task: &Task, body: &Value, job: &Job) -> Result<Reading, SiteError> {
    sample().read(
        task,
        &answer(200, &body.to_string()),
        &Reader {
            job,
            known: &|_, _| false,
        },
    )
}

fn problems(text: &str) -> String {
    SiteDefinition::parse("x.toml", text)
        .unwrap_err()
        .to_string()
}

#[test]
fn a_search_goes_from_keyword_to_items_to_comments() {
    let job = Job::search("example", ["a b,c"]);
    let search = seed(&job);
    assert_eq!(
        (search.priority, search.depth, &*search.lane),
        (100, 0, "search")
    );
    let request = sample().request(&search).unwrap();
    let sid = request
        .url
        .query_pairs()
        .find(|(name, _)| name == "sid")
        .unwrap()
        .1
        .into_owned();
    assert_eq!(
        request.url.as_str(),
        format!("http://127.0.0.1:8080/api/search?q=a%20b,c&page=1&size=20&sid={sid}")
    );
    assert_eq!(
        (request.method, request.headers.len(), sid.len()),
        (Method::Get, 1, 32)
    );

    let page = json!({"data": {"items": [{"id": 1, "token": "t"}, {"id": 2}, {"id": 1, "token": "t"}], "has_more": true, "total": 9}});
    let reading = read(&search, &page, &job).unwrap();
    let list = reading.list.unwrap();
    assert_eq!(
        (list.items, list.cursor.clone(), list.total, list.stop),
        (2, Some(json!(2)), Some(9), None)
    );
    assert_eq!(reading.follow.len(), 2);
    // The value made for the list stays the same on its second page.
    let second = Task {
        list: Some(list),
        ..search
    };
    assert!(
        sample()
            .request(&second)
            .unwrap()
            .url
            .as_str()
            .ends_with(&format!("page=2&size=20&sid={sid}"))
    );

    let detail = task_of(reading.follow.into_iter().next().unwrap());
    assert_eq!(
        (&*detail.endpoint, detail.priority, detail.depth),
        ("detail", 50, 1)
    );
    assert_eq!(
        sample().request(&detail).unwrap().url.as_str(),
        "http://127.0.0.1:8080/api/items/1?token=t"
    );
    let body = json!({"data": {"id": 1, "title": "T", "author": {"name": "N"}, "likes": "1.2万", "time": 1_700_000_000_000_i64,
        "link": "/l", "tags": [{"name": "x"}, {"name": "y"}], "comments": 3}});
    let reading = read(&detail, &body, &job).unwrap();
    assert_eq!(reading.records[0].key, "1");
    assert_eq!(
        Value::from(reading.records[0].fields.clone()),
        json!({"title": "T", "author": "N", "liked": 12000, "published": "2023-11-14T22:13:20Z",
            "link": "http://127.0.0.1:8080/l", "tags": ["x", "y"], "keyword": "a b,c"})
    );
    let comments = task_of(reading.follow.into_iter().next().unwrap());
    assert_eq!((comments.priority, comments.list.is_some()), (10, true));
    assert_eq!(
        sample().request(&comments).unwrap().url.as_str(),
        "http://127.0.0.1:8080/api/items/1/comments?size=20"
    );

    let page = json!({"data": {"pinned": [{"id": "p", "text": "!"}], "comments": [{"id": "p"}, {"id": "q"}], "cursor": "c/1", "has_more": true}});
    let reading = read(&comments, &page, &job).unwrap();
    assert_eq!(
        reading
            .records
            .iter()
            .map(|record| record.key.as_str())
            .collect::<Vec<_>>(),
        ["p", "q"]
    );
    assert_eq!(reading.records[0].fields["item"], "1");
    let next = Task {
        list: reading.list,
        ..comments
    };
    assert!(
        sample()
            .request(&next)
            .unwrap()
            .url
            .as_str()
            .ends_with("comments?cursor=c/1&size=20")
    );
}

#[test]
fn caps_cut_items_with_their_records_and_follow_ups() {
    let mut job = Job::search("example", ["k"]);
    job.max_items = Some(1);
    let page = json!({"data": {"items": [{"id": 1}, {"id": 2}], "has_more": true}});
    let reading = read(&seed(&job), &page, &job).unwrap();
    assert_eq!(
        (reading.follow.len(), reading.list.unwrap().stop),
        (1, Some(StopReason::Cap))
    );

    job.max_comments = Some(2);
    let mut comments = seed(&Job::detail("example", ["5"]));
    comments.endpoint = "comments".into();
    let page = json!({"data": {"comments": [{"id": 1}, {"id": 2}, {"id": 3}], "has_more": true, "cursor": "c"}});
    let reading = read(&comments, &page, &job).unwrap();
    assert_eq!(
        (reading.records.len(), reading.list.unwrap().stop),
        (2, Some(StopReason::Cap))
    );

    job.max_comments = Some(0);
    let detail = seed(&Job::detail("example", ["5"]));
    let body = json!({"data": {"id": 5, "comments": 3}});
    assert!(read(&detail, &body, &job).unwrap().follow.is_empty());
    job.max_comments = None;
    assert_eq!(read(&detail, &body, &job).unwrap().follow.len(), 1);
}

#[test]
fn inputs_become_seeds_and_bad_ones_are_listed() {
    let mut job = Job::detail(
        "example",
        ["7", "http://h/items/8?token=x", "7", "eight", "9"],
    );
    let seeds = sample().seeds(&job);
    let ids: Vec<&str> = seeds
        .tasks
        .iter()
        .filter_map(|task| task.params["id"].as_str())
        .collect();
    assert_eq!(ids, ["7", "8", "9"]);
    assert_eq!(seeds.tasks[1].params["token"], "x");
    assert_eq!(
        seeds.tasks[0].key,
        TaskKey::of("example", "detail", "[\"7\"]")
    );
    assert_eq!(seeds.rejected.len(), 1);
    job.max_items = Some(2);
    assert_eq!(sample().seeds(&job).tasks.len(), 2);
    assert!(
        sample().seeds(&Job::crawl(["http://h/"])).rejected[0]
            .1
            .contains("has no mode `crawl`")
    );
}

#[test]
fn the_answers_table_decides_before_the_status() {
    let task = seed(&Job::search("example", ["k"]));
    let class = |status, body: &str| sample().classify(&task, &answer(status, body));
    assert_eq!(class(200, r#"{"code": 300013}"#), Outcome::Limited);
    assert_eq!(class(200, r#"{"code": -404}"#), Outcome::Gone);
    assert_eq!(class(200, "<html>"), Outcome::Malformed);
    assert_eq!(class(503, ""), Outcome::ServerError);
    assert_eq!(
        class(200, r#"{"data": {"items": [], "has_more": false}}"#),
        Outcome::Empty
    );
    assert_eq!(
        class(200, r#"{"data": {"items": [{"id": 1}]}}"#),
        Outcome::Ok
    );
    let without = SAMPLE.replacen("300013", "300014", 1);
    let other = SiteDefinition::parse("x.toml", &without).unwrap();
    assert_ne!(
        other.classify(&task, &answer(200, r#"{"code": 300013}"#)),
        Outcome::Limited
    );
    // An empty last page is an end, an empty page in the middle is none.
    let later = Task {
        list: Some(ListState {
            pages: 1,
            ..ListState::default()
        }),
        ..task
    };
    let class = |body: &str| sample().classify(&later, &answer(200, body));
    assert_eq!(
        class(r#"{"data": {"items": null, "has_more": false}}"#),
        Outcome::Ok
    );
    assert_eq!(
        class(r#"{"data": {"items": null, "has_more": true}}"#),
        Outcome::Empty
    );
}

#[test]
fn a_page_that_says_nothing_is_malformed() {
    let job = Job::search("example", ["k"]);
    let error = read(&seed(&job), &json!({"status_code": 0}), &job)
        .unwrap_err()
        .0;
    assert!(
        error.contains("endpoint `search`") && error.contains("neither items"),
        "{error}"
    );
    assert!(
        read(
            &seed(&job),
            &json!({"data": {"items": null, "has_more": false}}),
            &job
        )
        .is_ok()
    );
}

#[test]
fn redirects_are_answers_or_stay_on_the_host() {
    let task = seed(&Job::search("example", ["k"]));
    let redirect = |to: &str| sample().redirect(&task, &Url::parse(to).unwrap());
    assert_eq!(
        redirect("http://127.0.0.1:8080/login?x"),
        Redirect::Answer(Outcome::Login)
    );
    assert!(matches!(
        redirect("http://127.0.0.1:8080/moved"),
        Redirect::Follow { claim: None, .. }
    ));
    assert!(matches!(
        redirect("http://other/moved"),
        Redirect::Refuse(_)
    ));
}

#[test]
fn posts_carry_forms_and_json() {
    let text = r#"
name = "p"
base_url = "https://h.example"
[endpoints.a]
post = "/a"
json = { id = "{id}", n = "{n|number}", fixed = [1, true], opt = "{list.session?}" }
list = { by = "next_url", next = "$.next", keep = { session = "$.s" }, each = "$.items[*]", key = "$" }
[[endpoints.a.follow]]
each = "$.items[*]"
endpoint = "b"
with = { id = { parts = ["$.x", { const = "-" }, "$.y"], join = "" } }
[endpoints.b]
post = "/b"
form = { id = "{id}", c = "1&2" }
headers = { content-type = "text/x" }
[modes.detail]
start = "a"
inputs = ['^(?<id>\w+):(?<n>\d+)$']
"#;
    let site = SiteDefinition::parse("p.toml", text).unwrap();
    let job = Job::detail("p", ["x:5"]);
    let task = task_of(site.seeds(&job).tasks.remove(0));
    let request = site.request(&task).unwrap();
    assert_eq!(&request.body[..], br#"{"id":"x","n":5,"fixed":[1,true]}"#);
    assert_eq!(
        request.headers,
        [("content-type".to_owned(), "application/json".to_owned())]
    );
    let body = r#"{"items": [{"x": "1", "y": 2}], "next": "/a?page=2", "s": "S"}"#;
    let reading = site.read(
        &task,
        &answer(200, body),
        &Reader {
            job: &job,
            known: &|_, _| false,
        },
    );
    let error = reading
        .map(|reading| {
            site.request(&Task {
                list: reading.list,
                ..task.clone()
            })
        })
        .unwrap();
    // The answer came from another host than the site's: its next page is refused.
    assert!(error.unwrap_err().0.contains("another host"));
    let own = Answer {
        url: Url::parse("https://h.example/a").unwrap(),
        ..answer(200, body)
    };
    let reading = site
        .read(
            &task,
            &own,
            &Reader {
                job: &job,
                known: &|_, _| false,
            },
        )
        .unwrap();
    let next = site
        .request(&Task {
            list: reading.list,
            ..task
        })
        .unwrap();
    assert_eq!(next.url.as_str(), "https://h.example/a?page=2");
    assert_eq!(
        &next.body[..],
        br#"{"id":"x","n":5,"fixed":[1,true],"opt":"S"}"#
    );
    let follow = site
        .request(&task_of(reading.follow.into_iter().next().unwrap()))
        .unwrap();
    assert_eq!(&follow.body[..], b"id=1-2&c=1%262");
    assert_eq!(
        follow.headers,
        [("content-type".to_owned(), "text/x".to_owned())]
    );
}

#[test]
fn html_endpoints_are_read_by_selectors() {
    let text = r#"
name = "h"
base_url = "http://h"
[endpoints.list]
get = "/l"
query = { q = "{keyword}", p = "{page}" }
format = "html"
list = { by = "page" }
[[endpoints.list.records]]
each = "li.item"
kind = "content"
key = "@data-id"
fields = { title = "a", url = { path = "a@href", as = "url" } }
[modes.search]
start = "list"
"#;
    let site = SiteDefinition::parse("h.toml", text).unwrap();
    let job = Job::search("h", ["k"]);
    let task = task_of(site.seeds(&job).tasks.remove(0));
    let mut page = answer(
        200,
        "<li class=item data-id=1><a href=/1>One</a><li class=item data-id=2><a href=/2>Two</a><li>ad",
    );
    assert_eq!(site.classify(&task, &page), Outcome::Malformed);
    page.headers = Headers(vec![("content-type".to_owned(), "text/html".into())]);
    assert_eq!(site.classify(&task, &page), Outcome::Ok);
    let reading = site
        .read(
            &task,
            &page,
            &Reader {
                job: &job,
                known: &|_, _| false,
            },
        )
        .unwrap();
    assert_eq!(reading.records.len(), 2);
    assert_eq!(reading.records[1].fields["url"], "http://127.0.0.1:8080/2");
    assert_eq!(reading.list.unwrap().cursor, Some(json!(2)));
}

#[test]
fn settings_override_the_definition() {
    let mut settings = SiteSettings {
        base_url: Some("http://localhost:1".to_owned()),
        robots: Some(RobotsPolicy::Obey),
        ..SiteSettings::default()
    };
    settings.limits.max_concurrency_num = Some(1);
    settings.endpoints.insert(
        "search".to_owned(),
        LimitSettings {
            burst: Some(9),
            ..LimitSettings::default()
        },
    );
    let site = sample().with_settings(&settings).unwrap();
    assert_eq!(site.robots(), RobotsPolicy::Obey);
    let limits = site.limits();
    assert_eq!(
        (limits.site.max_concurrency_num, limits.site.burst),
        (Some(1), Some(4))
    );
    let search = &limits.endpoints["search"];
    assert_eq!(
        (search.burst, search.rate),
        (Some(9), Some("10/s".parse().unwrap()))
    );
    let request = site.request(&seed(&Job::search("example", ["k"]))).unwrap();
    assert_eq!(request.url.port(), Some(1));
    settings.base_url = Some("nonsense".to_owned());
    assert!(sample().with_settings(&settings).is_err());
    let mut wrong = SiteSettings::default();
    wrong
        .endpoints
        .insert("serch".to_owned(), LimitSettings::default());
    assert!(
        sample()
            .with_settings(&wrong)
            .unwrap_err()
            .to_string()
            .contains("no endpoint `serch`")
    );
}

#[test]
fn all_problems_come_at_once_with_their_lines() {
    let text = r#"name = "Bad Name"
base_url = "ftp://h/"
limit = {}
[[answers]]
when = { status = [99, "5xx"], json = "code == 1" }
is = "limitted"
[endpoints.search]
get = "/s/{keyword}"
list = { by = "page", more = "$.a[" }
limits = { rate = "fast", max_concurrency_num = 0 }
[[endpoints.search.records]]
each = "$.x[*]"
kind = "content"
key = "$.id"
fields = { a = { path = "$.a", as = "cnt" }, b = "{nobody}" }
[[endpoints.search.follow]]
endpoint = "detial"
[endpoints.detail]
get = "/d/{id}"
[modes.search]
start = "search"
inputs = "("
"#;
    let found = problems(text);
    for wanted in [
        "x.toml:1: `Bad Name` is not a name",
        "x.toml:2: `base_url`: scheme `ftp`",
        "x.toml:3: `limit` is not a key here; did you mean `limits`?",
        "x.toml:5: `answers.when.status` must be a whole number from 100 to 599, not 99",
        "x.toml:5: `code` is not a JSONPath",
        "x.toml:6: `limitted` is not an outcome class; did you mean `limited`?",
        "x.toml:9: `$.a[` is not a JSONPath",
        "x.toml:10: `fast` has no `/`",
        "x.toml:10: `endpoints.search.limits.max_concurrency_num` must be a whole number from 1 to 10000, not 0",
        "x.toml:15: `cnt` is not a form of a value; did you mean `count`?",
        "x.toml:22: `(` is not a regular expression",
        "x.toml:16: follows to `detial`, which is no endpoint; did you mean `detail`?",
        "x.toml:18: endpoint `detail` is reached from no mode",
        "x.toml:7: `search` is a list by page, but nothing in its request is `{page}`",
        "x.toml:7: `{nobody}` in a field is not known there",
    ] {
        assert!(found.contains(wanted), "{wanted}\n---\n{found}");
    }
}

#[test]
fn what_nobody_fills_is_a_problem() {
    let base = "name = \"a\"\nbase_url = \"http://h\"\n[endpoints.x]\nget = \"/{id}\"\n";
    let found = problems(&format!("{base}[modes.search]\nstart = \"x\"\n"));
    assert!(
        found.contains("x.toml:5: `{id}` of endpoint `x` is not filled by mode `search`"),
        "{found}"
    );
    assert!(SiteDefinition::parse("x", &format!("{base}[modes.detail]\nstart = \"x\"\n")).is_ok());
    let found = problems(&format!(
        "{base}identity = [\"uid\"]\n[modes.detail]\nstart = \"x\"\n"
    ));
    assert!(found.contains("`{uid}` of endpoint `x`"), "{found}");
    let found = problems(&format!(
        "{base}query = {{ t = \"{{t?}}\" }}\n[modes.detail]\nstart = \"x\"\n"
    ));
    assert!(
        found.contains("`{t?}` of `x` is filled by nobody"),
        "{found}"
    );
    assert!(problems(base).contains("no mode to start from"));
    assert!(problems("name = ").contains("x.toml:1:"));
}

#[test]
fn each_line_of_the_sample_matters() {
    // Leaving out any one row of fields changes what a record holds; leaving out a required part is a problem.
    for (line, outcome) in [
        ("    title = \"$.title\"\n", true),
        ("get = \"/search\"\n", false),
        ("start = \"creator\"\n", false),
    ] {
        assert!(SAMPLE.contains(line), "{line}");
        let parsed = SiteDefinition::parse("x", &SAMPLE.replacen(line, "", 1));
        assert_eq!(parsed.is_ok(), outcome, "{line}");
        if let Ok(site) = parsed {
            let job = Job::detail("example", ["1"]);
            let body = answer(200, r#"{"data": {"id": 1, "title": "T"}}"#);
            let reader = Reader {
                job: &job,
                known: &|_, _| false,
            };
            let reading = site.read(&seed(&job), &body, &reader).unwrap();
            assert!(!reading.records[0].fields.contains_key("title"));
        }
    }
}
