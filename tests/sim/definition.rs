//! The definition of the API site, read as the engine reads it and asked without an engine.

use std::collections::{BTreeSet, HashSet};

use crawler_node::model::{Answer, Headers, Job, ListState, Method, NewTask, Outcome, Task};
use crawler_node::sim::{self, ApiSite, Content};
use crawler_node::site::{Reader, Site, SiteDefinition};

const BASE: &str = "http://127.0.0.1:9";

fn ask(site: &ApiSite, definition: &SiteDefinition, task: &Task) -> Answer {
    let request = definition.request(task).unwrap();
    let target = &request.url[url::Position::BeforePath..url::Position::AfterQuery];
    let content_type = request
        .headers
        .iter()
        .find(|(name, _)| name.eq_ignore_ascii_case("content-type"))
        .map_or("", |(_, value)| value.as_str());
    let method = match request.method {
        Method::Get => "GET",
        Method::Post => "POST",
    };
    let answer = site.answer(&sim::Request {
        method,
        target,
        host: "127.0.0.1:9",
        content_type,
        range: "",
        if_range: "",
        body: &request.body,
    });
    let content_type = answer.content_type.into_owned().into_bytes();
    Answer {
        url: request.url,
        status: answer.status,
        headers: Headers(vec![("content-type".to_owned(), content_type.into())]),
        body: answer.body,
        notes: Vec::new(),
        head_time: std::time::Duration::ZERO,
        total_time: std::time::Duration::ZERO,
    }
}

fn leased(definition: &SiteDefinition, new: NewTask) -> Task {
    Task {
        id: 1,
        lease: 1,
        site: definition.name().clone(),
        endpoint: new.endpoint,
        params: new.params,
        lane: new.lane,
        priority: new.priority,
        depth: new.depth,
        attempts: 0,
        list: new.list.then(ListState::default),
    }
}

/// Does a job by the definition alone; gives (kind, key) of the records.
fn run(site: &ApiSite, job: &Job) -> BTreeSet<(String, String)> {
    let definition = SiteDefinition::parse("api_site.toml", &ApiSite::definition(BASE)).unwrap();
    let seeds = definition.seeds(job);
    assert_eq!(seeds.rejected, []);
    let mut keys = HashSet::new();
    let mut new = seeds.tasks;
    let mut todo: Vec<Task> = Vec::new();
    let mut found = BTreeSet::new();
    let reader = Reader {
        job,
        known: &|_, _| false,
    };
    loop {
        new.retain(|task| keys.insert(task.key));
        todo.extend(new.drain(..).map(|task| leased(&definition, task)));
        let Some(mut task) = todo.pop() else {
            return found;
        };
        let answer = ask(site, &definition, &task);
        assert_eq!(
            definition.classify(&task, &answer),
            Outcome::Ok,
            "{}",
            answer.url
        );
        let reading = definition.read(&task, &answer, &reader).unwrap();
        found.extend(
            reading
                .records
                .into_iter()
                .map(|record| (record.kind.to_string(), record.key)),
        );
        new = reading.follow;
        if let Some(list) = reading.list
            && list.stop.is_none()
        {
            task.list = Some(list);
            todo.push(task);
        }
    }
}

#[test]
fn a_search_by_the_definition_finds_what_is_expected() {
    let site = ApiSite {
        overlap: 3,
        ..ApiSite::new(4)
    };
    let keywords = ["rust", "猫 & 🐙"];
    assert_eq!(
        run(&site, &Job::search("demo-api", keywords)),
        site.expected(&keywords)
    );
}

#[test]
fn details_and_creators_by_the_definition_find_what_is_expected() {
    let site = ApiSite::new(4);
    let ids = &site.found("rust")[..4];
    let urls = ids.iter().map(|id| site.item_url(BASE, *id));
    assert_eq!(
        run(&site, &Job::detail("demo-api", urls)),
        site.expected_items(ids)
    );
    let creators = [site.creator_id(1), site.creator_id(5)];
    let job = Job::creator("demo-api", creators.clone());
    assert_eq!(run(&site, &job), site.expected_creators(&creators));
}

#[test]
fn the_answers_that_say_no_are_understood() {
    let definition = SiteDefinition::parse("api_site.toml", &ApiSite::definition(BASE)).unwrap();
    let site = ApiSite::new(4);
    let wrong = format!("{BASE}/api/item/{}?token=x", site.found("rust")[0]);
    let none = format!("{BASE}/api/item/17?token=x");
    let tasks = definition
        .seeds(&Job::detail("demo-api", [wrong, none]))
        .tasks;
    let classes: Vec<Outcome> = tasks
        .into_iter()
        .map(|task| {
            let task = leased(&definition, task);
            let answer = ask(&site, &definition, &task);
            let limited = Answer {
                status: 200,
                body: sim::Refusal::in_body(300_013).body.into(),
                ..answer.clone()
            };
            assert_eq!(definition.classify(&task, &limited), Outcome::Limited);
            definition.classify(&task, &answer)
        })
        .collect();
    assert_eq!(classes, [Outcome::ClientError, Outcome::Gone]);
}
