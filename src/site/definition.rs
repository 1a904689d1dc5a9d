//! A site as its TOML definition describes it.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use serde_json::Value;
use url::Url;

use super::answers::{AnswerRule, Judged};
use super::document::DefinitionErrors;
use super::endpoint::{CapOf, Common, Endpoint, ListRule, same_host};
use super::extract::{RecordRule, Scene};
use super::inputs::ModeRule;
use super::paging::{self, Fate};
use super::select::{Document, Language, Node};
use super::template::{Encoding, plain};
use super::urls::{authority, masked, of_page, parse_web};
use super::{Reader, Reading, Redirect, Save, Seeds, Site, SiteError, SiteLimits, charset, schema};
use crate::model::{
    Answer, Job, ListState, Mode, Name, NewTask, Outcome, Params, Request, RobotsPolicy, Task,
};
use crate::settings::SiteSettings;

/// Priorities by depth: what was found later goes first, so that items are finished before new ones are listed.
const PRIORITIES: [i32; 4] = [100, 50, 10, 5];

/// What a definition says of mode `crawl`.
#[derive(Clone, Debug, Default)]
pub(super) struct CrawlPart {
    pub(super) urls: Vec<String>,
    pub(super) records: Vec<RecordRule>,
}

/// A site defined in TOML. See `docs/site-definitions.md`.
#[derive(Clone, Debug)]
pub struct SiteDefinition {
    pub(super) common: Common,
    pub(super) robots: RobotsPolicy,
    pub(super) limits: SiteLimits,
    pub(super) answers: Vec<AnswerRule>,
    pub(super) endpoints: BTreeMap<String, Endpoint>,
    pub(super) modes: BTreeMap<Mode, ModeRule>,
    pub(super) crawl: Option<CrawlPart>,
}

impl SiteDefinition {
    /// Reads and checks a definition; `source_name` is what problems name as its file.
    ///
    /// # Errors
    /// All problems at once, each with its line.
    pub fn parse(source_name: &str, text: &str) -> Result<Self, DefinitionErrors> {
        schema::parse(source_name, text)
    }

    /// The definition with what the settings of its site override.
    ///
    /// # Errors
    /// When `base_url` is no http or https URL, or limits name an endpoint that does not exist.
    pub fn with_settings(mut self, settings: &SiteSettings) -> Result<Self, DefinitionErrors> {
        let source = format!("settings of site `{}`", self.common.site);
        if let Some(base) = &settings.base_url {
            self.common.base = parse_web(base).map_err(|why| {
                DefinitionErrors::of(&source, format!("`base_url` = `{base}`: {why}"))
            })?;
        }
        self.robots = settings.robots.unwrap_or(self.robots);
        self.limits.site = settings.limits.over(&self.limits.site);
        for (name, limits) in &settings.endpoints {
            if !self.endpoints.contains_key(name) && self.crawl.is_none() {
                let names: Vec<&str> = self.endpoints.keys().map(String::as_str).collect();
                let text = format!(
                    "there is no endpoint `{name}`; allowed: {}",
                    names.join(", ")
                );
                return Err(DefinitionErrors::of(&source, text));
            }
            let own = self.limits.endpoints.entry(name.clone()).or_default();
            *own = limits.over(own);
        }
        Ok(self)
    }

    /// What its relative URLs are relative to.
    #[must_use]
    pub const fn base_url(&self) -> &Url {
        &self.common.base
    }

    /// The modes that the site can be asked in.
    #[must_use]
    pub fn modes(&self) -> BTreeSet<Mode> {
        let crawl = self.crawl.iter().map(|_| Mode::Crawl);
        self.modes.keys().copied().chain(crawl).collect()
    }

    /// The names of its endpoints.
    pub fn endpoint_names(&self) -> impl Iterator<Item = &str> {
        self.endpoints.keys().map(String::as_str)
    }

    /// Start URLs of mode `crawl` that the definition names.
    #[must_use]
    pub fn crawl_urls(&self) -> &[String] {
        self.crawl.as_ref().map_or(&[], |crawl| &crawl.urls)
    }

    /// The site's headers that need no values.
    pub(super) fn fixed_headers(&self) -> Vec<(String, String)> {
        let headers = self.common.headers.iter();
        headers
            .filter_map(|(name, template)| {
                let value = template.render(Encoding::Plain, &|_| None).ok().flatten()?;
                Some((name.clone(), value))
            })
            .collect()
    }

    fn endpoint(&self, name: &str) -> Result<&Endpoint, SiteError> {
        self.endpoints.get(name).ok_or_else(|| {
            SiteError(format!(
                "site `{}` has no endpoint `{name}`",
                self.common.site
            ))
        })
    }

    fn new_task(
        &self,
        endpoint: &Endpoint,
        params: Params,
        depth: u32,
    ) -> Result<NewTask, SiteError> {
        let place = usize::try_from(depth).unwrap_or(usize::MAX);
        Ok(NewTask {
            endpoint: endpoint.name.clone(),
            key: endpoint.key(&self.common, &params)?,
            params,
            lane: endpoint.name.clone(),
            priority: PRIORITIES.get(place).copied().unwrap_or(1),
            depth,
            list: endpoint.list.is_some(),
        })
    }

    /// The document, and how many characters of it could not be read.
    fn parse_body(endpoint: &Endpoint, answer: &Answer) -> Result<(Document, u64), SiteError> {
        let (body, headers) = (&answer.body, &answer.headers);
        let (document, replaced) = match endpoint.language {
            Language::Json => {
                let json = charset::json(body, headers);
                (Document::json(&json.text)?, json.replaced)
            }
            Language::Html => {
                let page = charset::page(body, headers);
                (Document::html(&page.text)?, page.replaced)
            }
        };
        Ok((document, replaced))
    }

    /// Whether a good answer lacks the items it is asked for.
    fn is_empty(endpoint: &Endpoint, task: &Task, root: Node<'_>) -> bool {
        match &endpoint.list {
            Some(list) => {
                let first = task.list.as_ref().is_none_or(|state| state.pages == 0);
                list.items.nodes(root).is_empty() && (first || list.page(root).more == Some(true))
            }
            None => {
                !endpoint.records.is_empty()
                    && endpoint
                        .records
                        .iter()
                        .all(|rule| rule.each.nodes(root).is_empty())
            }
        }
    }

    /// Takes a page of a list: its new state, and the addresses of what the cap cuts off.
    fn turn(
        &self,
        list: &ListRule,
        task: &Task,
        scene: &Scene<'_>,
        cap: Option<u64>,
    ) -> Result<(ListState, HashSet<usize>), SiteError> {
        let mut page = list.page(scene.root);
        let nodes = list.items.nodes(scene.root);
        let silent = page.more.is_none()
            && page.next.is_none()
            && page.total.is_none()
            && page.total_pages.is_none();
        if nodes.is_empty() && silent && list.is_flagged() {
            return Err(SiteError(
                "the page has neither items nor a word on whether there are more".to_owned(),
            ));
        }
        let mut counted = Vec::new();
        for node in nodes {
            let key = match &list.key {
                Some(field) => field.read(scene, node).map(|value| plain(&value)),
                None => Some(self.follow_keys(task, scene, node)?),
            };
            if let Some(key) = key.filter(|key| !key.is_empty()) {
                page.items.push(key);
                counted.push(node);
            }
        }
        if let Some(Value::String(next)) = &page.next
            && list.paging.by == paging::By::NextUrl
        {
            page.next = scene
                .url
                .join(next)
                .ok()
                .map(|url| String::from(url).into());
        }
        let before = task.list.clone().unwrap_or_default();
        let turn = paging::turn(&list.paging, &before, page, cap);
        let mut cut = Vec::new();
        for (node, fate) in counted.iter().zip(&turn.fates) {
            if *fate == Fate::Cut {
                node.addresses(&mut cut);
            }
        }
        Ok((turn.state, cut.into_iter().collect()))
    }

    /// What tells an item apart that has no record: the values its follow-ups carry.
    fn follow_keys(
        &self,
        task: &Task,
        scene: &Scene<'_>,
        node: Node<'_>,
    ) -> Result<String, SiteError> {
        let endpoint = self.endpoint(&task.endpoint)?;
        let mut key = String::new();
        for (_, rule) in &endpoint.follow {
            key.push_str(&Value::from(rule.carried(scene, node)).to_string());
        }
        Ok(key)
    }

    fn cap_of(list: &ListRule, job: &Job) -> Option<u64> {
        match list.cap {
            Some(CapOf::Items) => job.max_items,
            Some(CapOf::Comments) => job.max_comments,
            Some(CapOf::Nothing) | None => None,
        }
    }

    fn read_page(
        &self,
        endpoint: &Endpoint,
        task: &Task,
        answer: &Answer,
        reader: &Reader<'_>,
    ) -> Result<Reading, SiteError> {
        let (document, replaced) = Self::parse_body(endpoint, answer)?;
        let lookup = |name: &str| match name {
            "url" => Some(answer.url.as_str().into()),
            _ => task.params.get(name).cloned(),
        };
        let scene = Scene {
            root: document.root(),
            url: &answer.url,
            lookup: &lookup,
        };
        let mut reading = Reading {
            replaced,
            ..Reading::default()
        };
        let mut cut = HashSet::new();
        if let Some(list) = &endpoint.list {
            let (state, beyond) = self.turn(list, task, &scene, Self::cap_of(list, reader.job))?;
            reading.list = Some(state);
            cut = beyond;
        }
        let kept = |node: &Node<'_>| !cut.contains(&node.address());
        let mut known_records = HashSet::new();
        for rule in &endpoint.records {
            for node in rule.each.nodes(scene.root).into_iter().filter(kept) {
                let record = rule.read(&self.common.site, &scene, node);
                let record = record.filter(|record| {
                    known_records.insert((record.kind.clone(), record.key.clone()))
                });
                reading.records.extend(record);
            }
        }
        let mut known_tasks = HashSet::new();
        let depth = task.depth.saturating_add(1);
        for (_, rule) in &endpoint.follow {
            let target = self.endpoint(&rule.endpoint)?;
            let barred = target
                .list
                .as_ref()
                .is_some_and(|list| Self::cap_of(list, reader.job) == Some(0));
            if barred {
                continue;
            }
            for node in rule.each.nodes(scene.root).into_iter().filter(kept) {
                let follow = self.new_task(target, rule.carried(&scene, node), depth)?;
                if known_tasks.insert(follow.key) && !(reader.known)(&follow.key, depth) {
                    reading.follow.push(follow);
                }
            }
        }
        Ok(reading)
    }
}

impl Site for SiteDefinition {
    fn name(&self) -> &Name {
        &self.common.site
    }

    fn limits(&self) -> SiteLimits {
        self.limits.clone()
    }

    fn robots(&self) -> RobotsPolicy {
        self.robots
    }

    fn seeds(&self, job: &Job) -> Seeds {
        let mut seeds = Seeds::default();
        let inputs = match job.mode {
            Mode::Search => &job.inputs.keywords,
            Mode::Detail => &job.inputs.ids,
            Mode::Creator => &job.inputs.creators,
            Mode::Crawl => &job.inputs.urls,
        };
        let Some(rule) = self.modes.get(&job.mode) else {
            let known: Vec<&str> = self.modes().into_iter().map(Mode::as_str).collect();
            let why = format!(
                "site `{}` has no mode `{}`; it has: {}",
                self.common.site,
                job.mode,
                known.join(", ")
            );
            seeds.rejected = inputs
                .iter()
                .map(|input| (input.clone(), why.clone()))
                .collect();
            return seeds;
        };
        // A cap of none asks for nothing; in `detail` the ids themselves are the items.
        let most = match (job.max_items, job.mode) {
            (Some(0), _) => 0,
            (Some(cap), Mode::Detail) => usize::try_from(cap).unwrap_or(usize::MAX),
            _ => usize::MAX,
        };
        let mut known = HashSet::new();
        let mut taken = 0;
        for input in inputs {
            if taken >= most {
                break;
            }
            let tasks = rule.read(input).and_then(|params| {
                let starts = rule.start.iter().map(|start| {
                    let endpoint = self.endpoint(start)?;
                    self.new_task(endpoint, params.clone(), 0)
                });
                starts
                    .collect::<Result<Vec<_>, SiteError>>()
                    .map_err(|error| error.0)
            });
            match tasks {
                Err(why) => seeds.rejected.push((masked(input), why)),
                Ok(tasks) => {
                    let before = seeds.tasks.len();
                    seeds
                        .tasks
                        .extend(tasks.into_iter().filter(|task| known.insert(task.key)));
                    taken += usize::from(seeds.tasks.len() > before);
                }
            }
        }
        seeds
    }

    fn request(&self, task: &Task) -> Result<Request, SiteError> {
        let endpoint = self.endpoint(&task.endpoint)?;
        endpoint.request(&self.common, &task.params, task.list.as_ref())
    }

    fn save(&self, task: &Task) -> Result<Option<Save>, SiteError> {
        let endpoint = self.endpoint(&task.endpoint)?;
        let Some(rule) = &endpoint.save else {
            return Ok(None);
        };
        let key = endpoint.key(&self.common, &task.params)?;
        rule.of(&self.common.site, &task.params, &key).map(Some)
    }

    fn classify(&self, task: &Task, answer: &Answer) -> Outcome {
        let judged = Judged::new(answer);
        let rule = self
            .answers
            .iter()
            .find(|rule| rule.when.holds(&task.endpoint, &judged));
        if let Some(rule) = rule {
            return rule.is;
        }
        let outcome =
            Outcome::of_status(answer.status, answer.headers.get("retry-after").is_some());
        let Ok(endpoint) = self.endpoint(&task.endpoint) else {
            return outcome;
        };
        if let Some(save) = &endpoint.save
            && outcome == Outcome::Ok
        {
            // The rest of a file does not begin as the file does.
            let fits = answer.status == 206 || save.file_type(answer).is_some();
            return match fits && !answer.body.is_empty() {
                true => Outcome::Ok,
                false => Outcome::Malformed,
            };
        }
        match endpoint.language {
            _ if outcome != Outcome::Ok => outcome,
            Language::Html => match answer.media_type().as_str() {
                "" | "text/html" | "application/xhtml+xml" => Outcome::Ok,
                _ => Outcome::Malformed,
            },
            Language::Json => match judged.json() {
                None => Outcome::Malformed,
                Some(value) if Self::is_empty(endpoint, task, Node::Json(value)) => Outcome::Empty,
                Some(_) => Outcome::Ok,
            },
        }
    }

    fn read(
        &self,
        task: &Task,
        answer: &Answer,
        reader: &Reader<'_>,
    ) -> Result<Reading, SiteError> {
        let endpoint = self.endpoint(&task.endpoint)?;
        self.read_page(endpoint, task, answer, reader)
            .map_err(|error| SiteError(format!("endpoint `{}`: {}", endpoint.name, error.0)))
    }

    fn redirect(&self, task: &Task, target: &Url) -> Redirect {
        let rule = self
            .answers
            .iter()
            .find(|rule| rule.when.holds_redirect(&task.endpoint, target));
        if let Some(rule) = rule {
            return Redirect::Answer(rule.is);
        }
        let asked = self.request(task).map(|request| request.url);
        let near = |url: &Url| {
            same_host(&self.common.base, url)
                || asked.as_ref().is_ok_and(|asked| same_host(asked, url))
        };
        match of_page(target.clone()).filter(near) {
            Some(url) => Redirect::Follow {
                url,
                claim: None,
                lane: task.lane.clone(),
            },
            None => Redirect::Refuse(format!(
                "a redirect to another host, `{}`",
                authority(target)
            )),
        }
    }
}

#[cfg(test)]
#[path = "definition_tests.rs"]
mod tests;
