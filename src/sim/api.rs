//! The built-in API site: search, detail, comments, creators and a list of next-URLs, as JSON.

mod data;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::content::{Answer, Content, Request};

const CLASSES: [&str; 6] = ["search", "detail", "comments", "creator", "topic", "other"];

/// The definition of this site; `{base_url}` in it is a hole.
const DEFINITION: &str = include_str!("api_site.toml");

/// A platform as APIs know them. All content follows from the seed and the sizes; nothing is stored.
///
/// | path | parameters | answer (`$.data`) |
/// |---|---|---|
/// | `/api/search` | `q`, `page` from 1, `size` | `items` with `id` and `token`, `has_more`, `total`, `topic` |
/// | `/api/item/{id}` | `token` as the list gave it | `item` |
/// | `/api/comments` | `item`, `cursor` | `comments`, `cursor`, `has_more`, `total` |
/// | `/api/creator/{id}/items` | `offset`, `limit` | `items` with `id` and `token`, `total` |
/// | `/api/next/{topic}` | as its links say | `posts`, `next` (a URL, or null at the end) |
///
/// Parameters are read from the query, a form body or a JSON body alike. A good answer has `"code": 0`.
/// A wrong token is 403 with code 300031, an unknown id 404 with code 404, a senseless parameter 400 with code 400.
#[derive(Clone, Debug)]
pub struct ApiSite {
    /// Decides all content.
    pub seed: u64,
    /// Items that a keyword finds.
    pub items: u32,
    /// How many of them every keyword finds.
    pub shared_items: u32,
    /// The largest page of any list; at least 1.
    pub page_size: u32,
    /// Items that a search page repeats from the one before; less than a page.
    pub overlap: u32,
    /// The fewest comments of an item.
    pub min_comments: u32,
    /// The most comments of an item.
    pub max_comments: u32,
    /// How many creators there are, 1 to 800.
    pub creators: u32,
    /// Items in a creator's list.
    pub creator_items: u32,
    /// Posts in a topic.
    pub topic_posts: u32,
}

impl ApiSite {
    /// A small site: 20 items a keyword, 3 of them shared, in pages of 8 without overlap, with 1 to 20 comments.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self {
            seed,
            items: 20,
            shared_items: 3,
            page_size: 8,
            overlap: 0,
            min_comments: 1,
            max_comments: 20,
            creators: 12,
            creator_items: 10,
            topic_posts: 12,
        }
    }

    /// The site definition for a server at `base_url` (without a slash at the end).
    #[must_use]
    pub fn definition(base_url: &str) -> String {
        DEFINITION.replace("{base_url}", base_url)
    }

    /// The (kind, key) of every record that a search for `keywords` comes to, without asking a server.
    #[must_use]
    pub fn expected<S: AsRef<str>>(&self, keywords: &[S]) -> BTreeSet<(String, String)> {
        let keywords: BTreeSet<&str> = keywords.iter().map(AsRef::as_ref).collect();
        let ids = keywords.iter().flat_map(|keyword| self.found(keyword));
        let mut expected = self.expected_items(&ids.collect::<Vec<_>>());
        for keyword in keywords {
            let topic = self.topic(keyword);
            expected.extend((0..self.topic_posts).map(|nth| post_record(&topic, nth)));
        }
        expected
    }

    /// The same for items by their ids; those that do not exist come to nothing.
    #[must_use]
    pub fn expected_items(&self, ids: &[u64]) -> BTreeSet<(String, String)> {
        let mut expected = BTreeSet::new();
        for id in ids.iter().copied().filter(|id| self.exists(*id)) {
            expected.insert(("content".to_owned(), id.to_string()));
            expected.insert(("creator".to_owned(), Self::creator_of(id)));
            let comments = (0..self.comment_count(id)).map(|nth| self.comment_id(id, nth));
            expected.extend(comments.map(|key| ("comment".to_owned(), key.to_string())));
        }
        expected
    }

    /// The same for creators by their ids.
    #[must_use]
    pub fn expected_creators<S: AsRef<str>>(&self, ids: &[S]) -> BTreeSet<(String, String)> {
        let creators = ids.iter().filter_map(|id| self.creator_index(id.as_ref()));
        let items: Vec<u64> = creators.flat_map(|creator| self.created(creator)).collect();
        self.expected_items(&items)
    }

    /// The ids that a keyword finds, in order.
    #[must_use]
    pub fn found(&self, keyword: &str) -> Vec<u64> {
        let shared = self.shared_items.min(self.items);
        (0..self.items)
            .map(|nth| match nth < shared {
                true => self.item("shared", nth),
                false => self.item(keyword, nth),
            })
            .collect()
    }

    /// The URL of an item as a person would copy it, its token included: an input for mode detail.
    #[must_use]
    pub fn item_url(&self, base_url: &str, id: u64) -> String {
        format!("{base_url}/api/item/{id}?token={}", self.token(id))
    }

    /// The id of the `nth` creator, counted from 0; beyond the last they start anew.
    #[must_use]
    pub fn creator_id(&self, nth: u32) -> String {
        data::creator_name(nth % self.creator_total())
    }

    fn search(&self, params: &BTreeMap<String, String>) -> Option<Answer> {
        let keyword = params.get("q").filter(|keyword| !keyword.is_empty())?;
        let page = number(params, "page", 1).filter(|page| *page > 0)?;
        let size = self.size(params, "size")?;
        let found = self.found(keyword);
        let step = size - (self.overlap as usize).min(size - 1);
        let from = (page - 1).saturating_mul(step).min(found.len());
        let to = (from + size).min(found.len());
        Some(good(json!({
            "items": self.refs(&found[from..to]),
            "has_more": to < found.len(),
            "total": found.len(),
            "topic": self.topic(keyword),
        })))
    }

    fn detail(&self, id: &str, params: &BTreeMap<String, String>) -> Answer {
        let Some(id) = id.parse().ok().filter(|id| self.exists(*id)) else {
            return bad(404, 404, "no such item");
        };
        if params.get("token") != Some(&self.token(id)) {
            return bad(403, 300_031, "this item cannot be shown");
        }
        good(json!({ "item": self.item_value(id) }))
    }

    fn comments(&self, params: &BTreeMap<String, String>) -> Option<Answer> {
        let id: u64 = params.get("item")?.parse().ok()?;
        if !self.exists(id) {
            return Some(bad(404, 404, "no such item"));
        }
        let count = self.comment_count(id);
        let from = match params.get("cursor").map(String::as_str) {
            None | Some("") => 0,
            Some(cursor) => self
                .cursor_offset(id, cursor)
                .filter(|from| *from < count)?,
        };
        let to = from.saturating_add(self.page_size.max(1)).min(count);
        let comments: Vec<Value> = (from..to).map(|nth| self.comment_value(id, nth)).collect();
        Some(good(json!({
            "comments": comments,
            "cursor": if to < count { self.cursor(id, to) } else { String::new() },
            "has_more": to < count,
            "total": count,
        })))
    }

    fn creator(&self, id: &str, params: &BTreeMap<String, String>) -> Option<Answer> {
        let Some(creator) = self.creator_index(id) else {
            return Some(bad(404, 404, "no such creator"));
        };
        let items = self.created(creator);
        let from = number(params, "offset", 0)?.min(items.len());
        let to = (from + self.size(params, "limit")?).min(items.len());
        Some(good(json!({
            "creator": { "id": id, "name": data::creator_title(creator) },
            "items": self.refs(&items[from..to]),
            "total": items.len(),
        })))
    }

    fn posts(&self, topic: &str, host: &str, params: &BTreeMap<String, String>) -> Option<Answer> {
        let total = self.topic_posts as usize;
        let size = self.page_size.max(1) as usize;
        let from = number(params, "from", 0)?.min(total);
        let to = (from + size).min(total);
        let posts: Vec<Value> = (from..to)
            .map(|nth| json!({ "id": post_record(topic, nth as u32).1, "text": format!("Post {nth} 🗒️") }))
            .collect();
        // Absolute and relative by turns: both are met in the wild.
        let origin = match (from / size) % 2 {
            0 => format!("http://{host}"),
            _ => String::new(),
        };
        let next = (to < total).then(|| format!("{origin}/api/next/{topic}?from={to}"));
        Some(good(json!({ "posts": posts, "next": next })))
    }

    /// What lists give of items.
    fn refs(&self, ids: &[u64]) -> Vec<Value> {
        ids.iter()
            .map(|id| json!({ "id": id.to_string(), "token": self.token(*id) }))
            .collect()
    }

    /// A page size that was asked for, within what the site allows.
    fn size(&self, params: &BTreeMap<String, String>, name: &str) -> Option<usize> {
        let most = self.page_size.max(1) as usize;
        Some(number(params, name, most)?.clamp(1, most))
    }
}

impl Content for ApiSite {
    fn classes(&self) -> &'static [&'static str] {
        &CLASSES
    }

    fn class_of(&self, target: &str) -> usize {
        let prefixes = [
            "/api/search",
            "/api/item/",
            "/api/comments",
            "/api/creator/",
            "/api/next/",
        ];
        let class = prefixes
            .iter()
            .position(|prefix| target.starts_with(prefix));
        class.unwrap_or(CLASSES.len() - 1)
    }

    fn answer(&self, request: &Request<'_>) -> Answer {
        let params = request.params();
        let path: Vec<&str> = request.path().split('/').skip(1).collect();
        let answer = match path[..] {
            ["api", "search"] => self.search(&params),
            ["api", "item", id] => Some(self.detail(id, &params)),
            ["api", "comments"] => self.comments(&params),
            ["api", "creator", id, "items"] => self.creator(id, &params),
            ["api", "next", topic] => self.posts(topic, request.host, &params),
            _ => Some(bad(404, 404, "no such endpoint")),
        };
        answer.unwrap_or_else(|| bad(400, 400, "a parameter is missing or makes no sense"))
    }
}

fn good(data: Value) -> Answer {
    Answer::json(200, &json!({ "code": 0, "msg": "ok", "data": data }))
}

fn bad(status: u16, code: u32, text: &str) -> Answer {
    Answer::json(status, &json!({ "code": code, "msg": text, "data": null }))
}

/// `None` when the parameter is there and not a number.
fn number(params: &BTreeMap<String, String>, name: &str, default: usize) -> Option<usize> {
    params
        .get(name)
        .map_or(Some(default), |text| text.parse().ok())
}

fn post_record(topic: &str, nth: u32) -> (String, String) {
    ("post".to_owned(), format!("{topic}-{nth}"))
}

#[cfg(test)]
mod tests;
