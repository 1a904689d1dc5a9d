//! Plain walks over HTTP, to compare with what the sites say is there.

use std::collections::{BTreeMap, BTreeSet};

use crawler_node::sim::{ApiSite, HtmlSite, Server, SimConfig, SiteSpec};
use serde_json::Value;
use url::Url;

use super::client::Client;

fn serve(site: SiteSpec) -> Server {
    Server::start(SimConfig::one(site)).unwrap()
}

#[test]
fn a_walk_over_the_pages_finds_what_is_expected() {
    let site = HtmlSite::new(11, 300);
    let server = serve(SiteSpec::new("web", site.clone()));
    let mut client = Client::open(server.addr());
    let robots = client.get("/robots.txt");
    assert!(robots.text().contains("Disallow: /private/\n"));

    let start = Url::parse(&server.base_url("web").unwrap()).unwrap();
    let (mut stored, mut asked) = (BTreeSet::new(), BTreeSet::new());
    let mut todo = vec![start.clone()];
    while let Some(url) = todo.pop() {
        let target = url[url::Position::BeforePath..url::Position::AfterQuery].to_owned();
        let private = target.starts_with("/private/") && target != "/private/open.html";
        if url.origin() != start.origin() || private || !asked.insert(target.clone()) {
            continue;
        }
        let answer = client.get(&target);
        let html = answer
            .header("content-type")
            .unwrap()
            .starts_with("text/html");
        if let Some(location) = answer.header("location") {
            todo.push(url.join(location).unwrap());
        } else if answer.status == 200 && html {
            todo.extend(
                links(answer.text())
                    .iter()
                    .filter_map(|link| url.join(link).ok()),
            );
            stored.insert(target);
        }
    }
    assert_eq!(stored, site.expected());
    let counts = server.stop();
    let web = &counts.sites["web"];
    assert_eq!(web.class("page").requests as usize, stored.len());
    assert_eq!(
        (web.class("private").requests, web.class("offsite").requests),
        (0, 0)
    );
    assert!(web.class("missing").requests > 0 && web.class("redirect").requests > 0);
    assert_eq!((counts.duplicates(), web.repeats), (0, 0));
}

/// Every `href` and `src`, in quotes of either kind or without; one in a comment is a dead link more.
fn links(html: &str) -> Vec<String> {
    let pattern = r#"(?i)\b(?:href|src)=(?:"([^"]*)"|'([^']*)'|([^\s>]+))"#;
    let attribute = regex::Regex::new(pattern).unwrap();
    attribute
        .captures_iter(html)
        .filter_map(|found| (1..=3).find_map(|group| found.get(group)))
        .map(|link| link.as_str().replace("&amp;", "&"))
        .collect()
}

/// Asks the API as a person with its manual would.
struct Walk {
    client: Client,
    found: BTreeSet<(String, String)>,
    details: BTreeMap<String, String>,
}

impl Walk {
    fn get(&mut self, target: &str) -> Value {
        let answer = self.client.get(target);
        assert_eq!(answer.status, 200, "{target}");
        let mut answer = answer.json();
        assert_eq!(answer["code"], 0);
        answer["data"].take()
    }

    fn note_items(&mut self, data: &Value) {
        for item in data["items"].as_array().unwrap() {
            let [id, token] = ["id", "token"].map(|name| item[name].as_str().unwrap().to_owned());
            self.details.insert(id, token);
        }
    }

    fn search(&mut self, keyword: &str) {
        let encoded: String = url::form_urlencoded::byte_serialize(keyword.as_bytes()).collect();
        for page in 1.. {
            let data = self.get(&format!("/api/search?q={encoded}&page={page}"));
            self.note_items(&data);
            if page == 1 {
                self.topic(data["topic"].as_str().unwrap());
            }
            if data["has_more"] == false {
                return;
            }
        }
    }

    fn topic(&mut self, topic: &str) {
        let mut next = format!("/api/next/{topic}");
        loop {
            let data = self.get(&next);
            for post in data["posts"].as_array().unwrap() {
                let id = post["id"].as_str().unwrap().to_owned();
                self.found.insert(("post".to_owned(), id));
            }
            match data["next"].as_str() {
                Some(link) => next = link[link.find("/api").unwrap()..].to_owned(),
                None => return,
            }
        }
    }

    fn creator(&mut self, id: &str) {
        let mut offset = 0;
        loop {
            let data = self.get(&format!("/api/creator/{id}/items?offset={offset}&limit=4"));
            self.note_items(&data);
            offset += 4;
            if offset >= data["total"].as_u64().unwrap() {
                return;
            }
        }
    }

    fn details(&mut self) {
        for (id, token) in std::mem::take(&mut self.details) {
            let token: String = url::form_urlencoded::byte_serialize(token.as_bytes()).collect();
            let data = self.get(&format!("/api/item/{id}?token={token}"));
            let item = &data["item"];
            let author = item["author"]["id"].as_str().unwrap().to_owned();
            self.found.insert(("creator".to_owned(), author));
            self.found.insert((
                "content".to_owned(),
                item["id"].as_str().unwrap().to_owned(),
            ));
            let mut cursor = String::new();
            loop {
                let data = self.get(&format!("/api/comments?item={id}&cursor={cursor}"));
                for comment in data["comments"].as_array().unwrap() {
                    self.found
                        .insert(("comment".to_owned(), comment["id"].to_string()));
                }
                if data["has_more"] == false {
                    break;
                }
                cursor = data["cursor"].as_str().unwrap().to_owned();
            }
        }
    }
}

#[test]
fn a_walk_over_the_api_finds_what_is_expected() {
    let site = ApiSite {
        overlap: 2,
        ..ApiSite::new(11)
    };
    let server = serve(SiteSpec::new("api", site.clone()));
    let mut walk = Walk {
        client: Client::open(server.addr()),
        found: BTreeSet::new(),
        details: BTreeMap::new(),
    };
    let keywords = ["rust", "猫 & 🐙"];
    keywords.iter().for_each(|keyword| walk.search(keyword));
    walk.details();
    assert_eq!(walk.found, site.expected(&keywords));

    walk.found.clear();
    let creators = [site.creator_id(0), site.creator_id(7)];
    creators.iter().for_each(|creator| walk.creator(creator));
    walk.details();
    assert_eq!(walk.found, site.expected_creators(&creators));

    let counts = server.stop();
    let api = &counts.sites["api"];
    assert!(api.by_status.keys().eq([&200]), "{:?}", api.by_status);
    for class in ["search", "detail", "comments", "creator", "topic"] {
        assert!(api.class(class).served > 0, "{class}");
    }
    assert_eq!(api.class("other").requests, 0);
}
