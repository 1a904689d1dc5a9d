use std::collections::BTreeSet;

use proptest::prelude::*;
use serde_json::Value;

use super::*;

fn ask(site: &ApiSite, method: &str, target: &str, content_type: &str, body: &str) -> (u16, Value) {
    let answer = site.answer(&Request {
        method,
        target,
        host: "127.0.0.1:1",
        content_type,
        range: "",
        if_range: "",
        body: body.as_bytes(),
    });
    (answer.status, serde_json::from_slice(&answer.body).unwrap())
}

fn get(site: &ApiSite, target: &str) -> (u16, Value) {
    ask(site, "GET", target, "", "")
}

fn ids(answer: &Value) -> Vec<String> {
    let items = answer["data"]["items"].as_array().unwrap();
    items
        .iter()
        .map(|item| item["id"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn post_forms_and_json_answer_as_the_query_does() {
    let site = ApiSite::new(3);
    let plain = get(&site, "/api/search?q=%E7%8C%AB&page=2&size=5");
    let form = "application/x-www-form-urlencoded";
    assert_eq!(
        ask(
            &site,
            "POST",
            "/api/search",
            form,
            "q=%E7%8C%AB&page=2&size=5"
        ),
        plain
    );
    let json = r#"{"q":"猫","page":2,"size":5}"#;
    assert_eq!(
        ask(&site, "POST", "/api/search", "application/json", json),
        plain
    );
    assert_eq!(ids(&plain.1).len(), 5);
}

#[test]
fn a_token_is_good_for_its_item_only() {
    let site = ApiSite::new(3);
    let found = site.found("rust");
    let url = |id| site.item_url("", id);
    let (status, answer) = get(&site, &url(found[0]));
    assert_eq!((status, &answer["code"]), (200, &Value::from(0)));
    assert_eq!(answer["data"]["item"]["id"], found[0].to_string());
    let wrong = url(found[1]).replace(&found[1].to_string(), &found[0].to_string());
    for target in [wrong, format!("/api/item/{}", found[0])] {
        let (status, answer) = get(&site, &target);
        assert_eq!((status, &answer["code"]), (403, &Value::from(300_031)));
    }
}

#[test]
fn what_is_not_there_and_what_makes_no_sense_have_their_codes() {
    let site = ApiSite::new(3);
    let id = site.found("rust")[0];
    for (target, status) in [
        ("/api/item/1".to_owned(), 404),
        (format!("/api/item/{}", id ^ 1), 404),
        ("/api/creator/u999/items".to_owned(), 404),
        ("/api/creator/u1/items".to_owned(), 404),
        ("/api/nothing".to_owned(), 404),
        ("/api/search".to_owned(), 400),
        ("/api/search?q=a&page=0".to_owned(), 400),
        ("/api/search?q=a&page=x".to_owned(), 400),
        (format!("/api/comments?item={id}&cursor=c00000001"), 400),
        (format!("/api/comments?item={id}&cursor=8"), 400),
    ] {
        assert_eq!(get(&site, &target).0, status, "{target}");
    }
}

#[test]
fn overlapping_pages_repeat_the_end_of_the_page_before() {
    let site = ApiSite {
        overlap: 3,
        ..ApiSite::new(3)
    };
    let pages: Vec<Vec<String>> = (1..)
        .map(|page| get(&site, &format!("/api/search?q=a&page={page}")).1)
        .scan(true, |more, answer| {
            let again = std::mem::replace(more, answer["data"]["has_more"] == true);
            again.then(|| ids(&answer))
        })
        .collect();
    assert_eq!(pages[0][5..], pages[1][..3]);
    let all: BTreeSet<&String> = pages.iter().flatten().collect();
    assert_eq!(all.len(), site.items as usize);
    assert_eq!(pages.len(), 4, "8, then 5 new ones a page: 13, 18, 20");
}

#[test]
fn ids_have_19_digits_and_counts_come_in_both_forms() {
    let site = ApiSite {
        items: 60,
        ..ApiSite::new(3)
    };
    let found = site.found("rust");
    assert!(found.iter().all(|id| id.to_string().len() == 19));
    let likes: Vec<Value> = found
        .iter()
        .map(|id| site.item_value(*id)["likes"].clone())
        .collect();
    assert!(likes.iter().any(Value::is_number));
    assert!(
        likes
            .iter()
            .any(|likes| likes.as_str().is_some_and(|text| text.ends_with('万')))
    );
}

#[test]
fn keywords_share_some_items() {
    let site = ApiSite::new(3);
    let (one, other) = (site.found("a"), site.found("b"));
    assert_eq!(one[..3], other[..3]);
    assert!(one[3..].iter().all(|id| !other.contains(id)));
}

#[test]
fn the_definition_is_toml_and_its_base_is_filled() {
    let text = ApiSite::definition("http://127.0.0.1:9");
    let table: toml::Table = text.parse().unwrap();
    assert_eq!(table["base_url"].as_str(), Some("http://127.0.0.1:9"));
    assert!(
        table["endpoints"]
            .as_table()
            .unwrap()
            .contains_key("comments")
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever the sizes, walking all lists of an item and a creator gives what the oracle says.
    #[test]
    fn lists_end_and_hold_what_the_oracle_says(
        seed: u64, page_size in 1_u32..9, creator_items in 0_u32..20,
        topic_posts in 0_u32..20, min_comments in 0_u32..5, max_comments in 0_u32..30,
    ) {
        let site = ApiSite {
            page_size, creator_items, topic_posts, min_comments, max_comments, ..ApiSite::new(seed)
        };
        let id = site.found("k")[5];
        prop_assert!(site.exists(id));
        let mut comments = BTreeSet::new();
        let mut cursor = String::new();
        loop {
            let (status, answer) = get(&site, &format!("/api/comments?item={id}&cursor={cursor}"));
            prop_assert_eq!(status, 200);
            for comment in answer["data"]["comments"].as_array().unwrap() {
                let key = comment["id"].as_u64().unwrap().to_string();
                prop_assert!(comments.insert(("comment".to_owned(), key)));
            }
            if answer["data"]["has_more"] == false {
                break;
            }
            cursor = answer["data"]["cursor"].as_str().unwrap().to_owned();
        }
        let mut expected = site.expected_items(&[id]);
        expected.retain(|(kind, _)| kind == "comment");
        prop_assert_eq!(comments, expected);

        let mut items = Vec::new();
        loop {
            let target = format!("/api/creator/u003/items?offset={}&limit=5", items.len());
            let (_, answer) = get(&site, &target);
            let page = ids(&answer);
            if page.is_empty() {
                break;
            }
            items.extend(page);
        }
        let expected: Vec<String> = site.created(3).iter().map(u64::to_string).collect();
        prop_assert_eq!(&items, &expected);
        prop_assert!(items.iter().all(|id| ApiSite::creator_of(id.parse().unwrap()) == "u003"));

        let mut posts = BTreeSet::new();
        let mut next = Some(format!("/api/next/{}", site.topic("k")));
        while let Some(target) = next {
            let (_, answer) = get(&site, target.trim_start_matches("http://127.0.0.1:1"));
            for post in answer["data"]["posts"].as_array().unwrap() {
                posts.insert(("post".to_owned(), post["id"].as_str().unwrap().to_owned()));
            }
            next = answer["data"]["next"].as_str().map(str::to_owned);
        }
        let mut expected = site.expected(&["k"]);
        expected.retain(|(kind, _)| kind == "post");
        prop_assert_eq!(posts, expected);
    }
}
