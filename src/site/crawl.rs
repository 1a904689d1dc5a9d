//! Mode `crawl`: ordinary web sites, followed link by link.

use std::borrow::Cow;
use std::collections::HashSet;

use serde_json::{Map, Value};
use url::{Position, Url};

use super::document::DefinitionErrors;
use super::extract::{RecordRule, Scene};
use super::links::{PageLinks, page_links_for};
use super::refresh;
use super::scope::Bounds;
use super::select::Document;
use super::urls::{Canonical, authority, linked, masked, of_page, parse_web, shown};
use super::{
    Reader, Reading, Redirect, Seeds, Site, SiteDefinition, SiteError, SiteLimits, Target, charset,
};
use crate::model::{
    Answer, CrawlRules, Job, Name, NewTask, Outcome, Params, Record, Request, RobotsPolicy, Task,
    TaskKey,
};

/// A crawl along links: endpoint `page`, records of kind `page`, each host a lane of its own.
#[derive(Clone, Debug)]
pub struct CrawlSite {
    name: Name,
    page: Name,
    bounds: Bounds,
    /// The start URLs of the definition, for a job that names none.
    own_starts: Vec<String>,
    max_depth: Option<u32>,
    robots: RobotsPolicy,
    /// The product token by which pages speak to this crawler.
    agent: String,
    /// What a page is recognised by.
    canonical: Canonical,
    limits: SiteLimits,
    headers: Vec<(String, String)>,
    records: Vec<RecordRule>,
}

impl CrawlSite {
    /// The name of a crawl without a site definition.
    pub const DEFAULT_NAME: &'static str = "web";

    /// The endpoint of all its tasks, and the kind of its default record.
    pub const PAGE: &'static str = "page";

    /// A crawl by `rules` from `starts`, or from those of the definition when there are none. Start URLs that
    /// cannot be read bound nothing; [`Site::seeds`] lists them.
    ///
    /// # Errors
    /// When a pattern is no regular expression.
    pub fn new(
        name: &str,
        rules: &CrawlRules,
        starts: &[String],
        definition: Option<&SiteDefinition>,
    ) -> Result<Self, DefinitionErrors> {
        let own_starts = definition
            .map(|definition| definition.crawl_urls().to_vec())
            .unwrap_or_default();
        let used = if starts.is_empty() {
            &own_starts
        } else {
            starts
        };
        let canonical = Canonical::new(&rules.urls);
        let urls: Vec<Url> = used
            .iter()
            .filter_map(|text| parse_web(text).ok())
            .map(|url| canonical.of(&url).into_owned())
            .collect();
        let off = definition.is_some_and(|definition| definition.robots == RobotsPolicy::Off);
        let headers = definition
            .map(SiteDefinition::fixed_headers)
            .unwrap_or_default();
        Ok(Self {
            name: name.into(),
            page: Self::PAGE.into(),
            bounds: Bounds::new(rules, &urls)?,
            max_depth: rules.max_depth,
            robots: if off { RobotsPolicy::Off } else { rules.robots },
            agent: String::new(),
            canonical,
            limits: definition
                .map(|definition| definition.limits.clone())
                .unwrap_or_default(),
            headers,
            records: definition
                .and_then(|definition| definition.crawl.clone())
                .map(|crawl| crawl.records)
                .unwrap_or_default(),
            own_starts,
        })
    }

    /// Known to the pages by this product token, beside what they say to all robots.
    #[must_use]
    pub fn known_as(self, agent: &str) -> Self {
        Self {
            agent: agent.to_owned(),
            ..self
        }
    }

    /// The key of a page, by the canonical form of its URL.
    fn key(&self, canonical: &Url) -> TaskKey {
        TaskKey::of(&self.name, Self::PAGE, canonical.as_str())
    }

    fn new_task(&self, url: &Url, key: TaskKey, lane: Name, depth: u32) -> NewTask {
        let mut params = Params::new();
        params.insert("url".to_owned(), url.as_str().into());
        NewTask {
            endpoint: self.page.clone(),
            params,
            key,
            lane,
            priority: i32::try_from(depth).unwrap_or(i32::MAX),
            depth,
            list: false,
        }
    }

    /// The tasks that a page leads to: in scope, each once, unknown so far.
    fn follow(
        &self,
        page: &PageLinks<'_>,
        task: &Task,
        answer: &Answer,
        reader: &Reader<'_>,
    ) -> Vec<NewTask> {
        let depth = task.depth.saturating_add(1);
        if self.max_depth.is_some_and(|most| depth > most) {
            return Vec::new();
        }
        let base = page
            .base
            .as_ref()
            .and_then(|base| answer.url.join(base).ok());
        let base = base.as_ref().unwrap_or(&answer.url);
        let mut lane: Option<(String, Name)> = None;
        let mut seen = HashSet::with_capacity(page.links.len());
        let mut follow = Vec::new();
        for link in &page.links {
            let Some(target) = linked(base, link) else {
                continue;
            };
            let canonical = self.canonical.of(&target);
            if self.bounds.refuses(&canonical).is_some() {
                continue;
            }
            let key = self.key(&canonical);
            if !seen.insert(key) || (reader.known)(&key, depth) {
                continue;
            }
            let origin = &target[..Position::AfterPort];
            let name = match &lane {
                Some((known, name)) if known == origin => name.clone(),
                _ => {
                    let name = Name::from(authority(&target));
                    lane = Some((origin.to_owned(), name.clone()));
                    name
                }
            };
            follow.push(self.new_task(&target, key, name, depth));
        }
        follow
    }

    fn page_record(
        &self,
        title: Option<String>,
        canonical: &Url,
        task: &Task,
        answer: &Answer,
    ) -> Record {
        let content_type = answer.headers.get("content-type").unwrap_or_default();
        let asked = &answer.url[..Position::AfterQuery];
        let mut fields = Map::new();
        fields.insert("url".to_owned(), asked.into());
        fields.insert(
            "requested_url".to_owned(),
            requested(task).cloned().unwrap_or(Value::Null),
        );
        fields.insert("status".to_owned(), answer.status.into());
        fields.insert("title".to_owned(), title.map_or(Value::Null, Value::from));
        fields.insert("depth".to_owned(), task.depth.into());
        fields.insert("content_type".to_owned(), content_type.into());
        Record {
            site: self.name.clone(),
            kind: self.page.clone(),
            key: canonical.as_str().to_owned(),
            fields,
        }
    }

    /// The definition's own records of a page.
    fn selected(
        &self,
        html: &str,
        canonical: &Url,
        answer: &Answer,
        out: &mut Vec<Record>,
    ) -> Result<(), SiteError> {
        let fits = |rule: &&RecordRule| {
            rule.matches
                .as_ref()
                .is_none_or(|pattern| pattern.is_match(canonical.as_str()))
        };
        let rules: Vec<&RecordRule> = self.records.iter().filter(fits).collect();
        if rules.is_empty() {
            return Ok(());
        }
        let document = Document::html(html)?;
        let lookup = |name: &str| (name == "url").then(|| canonical.as_str().into());
        let scene = Scene {
            root: document.root(),
            url: &answer.url,
            lookup: &lookup,
        };
        let mut known = HashSet::new();
        for rule in rules {
            for node in rule.each.nodes(scene.root) {
                let record = rule.read(&self.name, &scene, node);
                out.extend(
                    record.filter(|record| known.insert((record.kind.clone(), record.key.clone()))),
                );
            }
        }
        Ok(())
    }
}

/// Whether an answer is an HTML page: by its media type, or by its look where it has none.
fn is_html(answer: &Answer) -> bool {
    match answer.media_type().as_str() {
        "text/html" | "application/xhtml+xml" => true,
        "" => {
            let body = answer
                .body
                .strip_prefix(b"\xef\xbb\xbf")
                .unwrap_or(&answer.body)
                .trim_ascii_start();
            [
                "<!doctype html",
                "<html",
                "<head",
                "<body",
                "<title",
                "<!--",
                "<h1",
                "<div",
                "<p",
                "<a ",
            ]
            .iter()
            .any(|sign| {
                body.len() >= sign.len() && body[..sign.len()].eq_ignore_ascii_case(sign.as_bytes())
            })
        }
        _ => false,
    }
}

impl Site for CrawlSite {
    fn name(&self) -> &Name {
        &self.name
    }

    fn limits(&self) -> SiteLimits {
        self.limits.clone()
    }

    fn robots(&self) -> RobotsPolicy {
        self.robots
    }

    fn lanes_by_host(&self) -> bool {
        true
    }

    fn key_rules(&self) -> Option<String> {
        Some(self.canonical.describe())
    }

    fn seeds(&self, job: &Job) -> Seeds {
        let mut seeds = Seeds::default();
        let mut known = HashSet::new();
        let given = &job.inputs.urls;
        for text in if given.is_empty() {
            &self.own_starts
        } else {
            given
        } {
            match parse_web(text) {
                Err(why) => seeds.rejected.push((masked(text), why)),
                Ok(mut url) => {
                    url.set_fragment(None);
                    let key = self.key(&self.canonical.of(&url));
                    if known.insert(key) {
                        let lane = authority(&url).into();
                        seeds.tasks.push(self.new_task(&url, key, lane, 0));
                    }
                }
            }
        }
        seeds
    }

    fn request(&self, task: &Task) -> Result<Request, SiteError> {
        let text = task.params.get("url").and_then(Value::as_str);
        let text = text.ok_or_else(|| SiteError("the task has no `url`".to_owned()))?;
        let url = parse_web(text).map_err(|why| SiteError(format!("`{}`: {why}", masked(text))))?;
        Ok(Request {
            headers: self.headers.clone(),
            ..Request::get(url)
        })
    }

    fn classify(&self, _task: &Task, answer: &Answer) -> Outcome {
        Outcome::of_status(answer.status, answer.headers.get("retry-after").is_some())
    }

    fn read(
        &self,
        task: &Task,
        answer: &Answer,
        reader: &Reader<'_>,
    ) -> Result<Reading, SiteError> {
        let mut reading = Reading::default();
        if !(200..300).contains(&answer.status) || !is_html(answer) {
            return Ok(reading);
        }
        let html = charset::page(&answer.body, &answer.headers);
        reading.replaced = html.replaced;
        let mut page = page_links_for(&html.text, &self.agent);
        let mut asked = std::mem::take(&mut page.directives);
        asked.add_headers(&answer.headers, &self.agent);
        // As what the page itself says by `<meta http-equiv=refresh>`.
        let refreshes = answer.headers.all("refresh").filter_map(refresh::target);
        page.links.extend(refreshes.map(Cow::Borrowed));
        let canonical = self.canonical.of(&answer.url);
        let mut record = self.page_record(page.title.take(), &canonical, task, answer);
        let asked_text = asked.text().map_or(Value::Null, Value::from);
        let read_as = [
            ("encoding", html.encoding.into()),
            ("replaced", html.replaced.into()),
            ("robots", asked_text),
        ];
        let read_as = read_as.map(|(name, value): (_, Value)| (name.to_owned(), value));
        record.fields.extend(read_as);
        reading.records.push(record);
        self.selected(&html.text, &canonical, answer, &mut reading.records)?;
        if self.robots == RobotsPolicy::Off || !asked.nofollow() {
            reading.follow = self.follow(&page, task, answer, reader);
        }
        Ok(reading)
    }

    fn redirect(&self, task: &Task, target: &Url) -> Redirect {
        let Some(url) = of_page(target.clone()) else {
            let scheme = target.scheme();
            return Redirect::Refuse(format!("scheme `{scheme}` is not http or https"));
        };
        let canonical = self.canonical.of(&url);
        match self.bounds.refuses(&canonical) {
            Some(why) => {
                let shown = shown(&url);
                Redirect::Refuse(format!("a redirect to {shown}, which is {why}"))
            }
            None => Redirect::Follow {
                claim: Some(Target {
                    key: self.key(&canonical),
                    params: moved(task, &url),
                }),
                lane: authority(&url).into(),
                url,
            },
        }
    }
}

/// The URL that a task set out with, before any redirect.
fn requested(task: &Task) -> Option<&Value> {
    let params = &task.params;
    params.get("requested_url").or_else(|| params.get("url"))
}

/// What a task asks for after a redirect to `url`.
fn moved(task: &Task, url: &Url) -> Params {
    let mut params = Params::new();
    params.insert("url".to_owned(), url.as_str().into());
    params.extend(requested(task).map(|url| ("requested_url".to_owned(), url.clone())));
    params
}

#[cfg(test)]
#[path = "crawl_tests.rs"]
mod tests;
