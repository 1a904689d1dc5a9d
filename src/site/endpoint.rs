//! Endpoints: what a request looks like and what a task of it is known by.

use serde_json::{Map, Value};
use url::Url;

use super::SiteError;
use super::extract::{Each, Field, FollowRule, RecordRule};
use super::paging;
use super::save::SaveRule;
use super::select::{Language, Node, Path};
use super::template::{Encoding, Hole, JsonTemplate, Lookup, Template, plain};
use super::urls::{canonical, check_web, encode_into};
use super::values::truth;
use crate::model::{ListState, Method, Name, Params, Request, TaskKey};

/// The body of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Body {
    None,
    Form(Vec<(String, Template)>),
    Json(JsonTemplate),
}

/// Which cap of a job bounds a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CapOf {
    Items,
    Comments,
    Nothing,
}

/// An endpoint that answers in pages.
#[derive(Clone, Debug)]
pub(super) struct ListRule {
    pub(super) paging: paging::Rule,
    pub(super) next: Option<Path>,
    pub(super) more: Option<Path>,
    pub(super) done: Option<Path>,
    pub(super) total: Option<Path>,
    pub(super) total_pages: Option<Path>,
    pub(super) keep: Vec<(String, Path)>,
    /// What is counted.
    pub(super) items: Each,
    pub(super) key: Option<Field>,
    /// `None`: nothing was said, and nothing follows from the endpoint's place.
    pub(super) cap: Option<CapOf>,
}

impl ListRule {
    /// What a page says of itself; its items are filled in by the caller.
    pub(super) fn page(&self, root: Node<'_>) -> paging::Page {
        let first = |path: &Option<Path>| path.as_ref().and_then(|path| path.first(root));
        let whole =
            |path: &Option<Path>| first(path).and_then(|value| plain(&value).trim().parse().ok());
        paging::Page {
            items: Vec::new(),
            more: first(&self.more)
                .and_then(|value| truth(&value))
                .or_else(|| {
                    first(&self.done)
                        .and_then(|value| truth(&value))
                        .map(|done| !done)
                }),
            next: first(&self.next),
            total: whole(&self.total),
            total_pages: whole(&self.total_pages),
            keep: self
                .keep
                .iter()
                .filter_map(|(name, path)| Some((name.clone(), path.first(root)?)))
                .collect(),
        }
    }

    /// Whether the definition expects each page to say something of the list.
    pub(super) fn is_flagged(&self) -> bool {
        [
            &self.next,
            &self.more,
            &self.done,
            &self.total,
            &self.total_pages,
        ]
        .into_iter()
        .any(Option::is_some)
    }
}

/// A class of requests.
#[derive(Clone, Debug)]
pub(super) struct Endpoint {
    pub(super) name: Name,
    /// Its place in the document.
    pub(super) at: usize,
    pub(super) method: Method,
    pub(super) target: Template,
    pub(super) query: Vec<(String, Template)>,
    pub(super) body: Body,
    pub(super) headers: Vec<(String, Template)>,
    pub(super) language: Language,
    pub(super) identity: Option<Vec<String>>,
    pub(super) list: Option<ListRule>,
    pub(super) records: Vec<RecordRule>,
    pub(super) follow: Vec<(usize, FollowRule)>,
    /// Its answers are files.
    pub(super) save: Option<SaveRule>,
}

/// What the requests of a site have in common.
#[derive(Clone, Debug)]
pub(super) struct Common {
    pub(super) site: Name,
    pub(super) base: Url,
    pub(super) headers: Vec<(String, Template)>,
}

impl Endpoint {
    /// Every placeholder of its request, the site's headers left out, and of what it saves.
    pub(super) fn holes(&self) -> Vec<&Hole> {
        let saved = self.save.iter().flat_map(SaveRule::templates);
        let mut holes = self.request_holes();
        holes.extend(saved.flat_map(Template::holes));
        holes
    }

    /// Every placeholder of its request, the site's headers left out.
    pub(super) fn request_holes(&self) -> Vec<&Hole> {
        let mut holes: Vec<&Hole> = self.target.holes().collect();
        let pairs = self.query.iter().chain(&self.headers);
        holes.extend(pairs.flat_map(|(_, template)| template.holes()));
        match &self.body {
            Body::None => {}
            Body::Form(pairs) => {
                holes.extend(pairs.iter().flat_map(|(_, template)| template.holes()))
            }
            Body::Json(json) => holes.extend(json.holes()),
        }
        holes
    }

    fn named(&self, error: SiteError) -> SiteError {
        SiteError(format!("endpoint `{}`: {}", self.name, error.0))
    }

    /// The request for `params` at the page that `state` stands at.
    pub(super) fn request(
        &self,
        common: &Common,
        params: &Params,
        state: Option<&ListState>,
    ) -> Result<Request, SiteError> {
        let fresh = ListState::default();
        let state = state.unwrap_or(&fresh);
        let sticky = |name: &str| {
            let kept = self
                .list
                .as_ref()
                .is_some_and(|list| list.keep.iter().any(|(key, _)| key == name));
            let known = state.sticky.get(name).cloned();
            known.or_else(|| (!kept).then(|| self.made(common, params, name)).flatten())
        };
        let lookup = |name: &str| self.value(params, state, name, &sticky);
        let request = self
            .render(common, &lookup)
            .map_err(|error| self.named(error))?;
        match (&self.list, &state.cursor) {
            (Some(list), Some(Value::String(next))) if list.paging.by == paging::By::NextUrl => {
                let url = self.next_url(common, next)?;
                Ok(Request { url, ..request })
            }
            _ => Ok(request),
        }
    }

    /// A next page that the site named: on the same host only.
    fn next_url(&self, common: &Common, next: &str) -> Result<Url, SiteError> {
        let refuse = |why: &str| {
            self.named(SiteError(format!(
                "the next page `{next}` is refused: {why}"
            )))
        };
        let url = common
            .base
            .join(next)
            .map_err(|error| refuse(&error.to_string()))?;
        check_web(&url).map_err(|why| refuse(&why))?;
        if !same_host(&common.base, &url) {
            return Err(refuse("it is on another host"));
        }
        Ok(url)
    }

    fn value(
        &self,
        params: &Params,
        state: &ListState,
        name: &str,
        sticky: &dyn Fn(&str) -> Option<Value>,
    ) -> Option<Value> {
        if let Some(list) = &self.list {
            if let Some(name) = name.strip_prefix("list.") {
                return sticky(name);
            }
            if list.paging.by.placeholder() == Some(name) {
                return list.paging.by.current(state);
            }
        }
        params.get(name).cloned()
    }

    /// A value made for one list. It depends on what the list is, so that a resumed run makes the same.
    fn made(&self, common: &Common, params: &Params, name: &str) -> Option<Value> {
        let key = self.key(common, params).ok()?;
        let mut hasher = blake3::Hasher::new();
        hasher.update(b"sticky");
        hasher.update(&key.0);
        hasher.update(name.as_bytes());
        Some(hasher.finalize().to_hex()[..32].into())
    }

    /// What de-duplication compares: the declared values, else the request in canonical form.
    pub(super) fn key(&self, common: &Common, params: &Params) -> Result<TaskKey, SiteError> {
        let identity = match &self.identity {
            Some(names) => names
                .iter()
                .map(|name| params.get(name).map(plain).unwrap_or_default())
                .map(Value::from)
                .collect::<Value>()
                .to_string(),
            None => {
                let state = ListState::default();
                // Made values depend on the key, so they cannot be part of it.
                let none = |_: &str| Some(Value::from(""));
                let lookup = |name: &str| self.value(params, &state, name, &none);
                let request = self
                    .render(common, &lookup)
                    .map_err(|error| self.named(error))?;
                let body = String::from_utf8_lossy(&request.body);
                format!(
                    "{} {} {body}",
                    request.method.as_str(),
                    canonical(&request.url)
                )
            }
        };
        Ok(TaskKey::of(&common.site, &self.name, &identity))
    }

    fn render(&self, common: &Common, lookup: Lookup<'_>) -> Result<Request, SiteError> {
        let target = self
            .target
            .render(Encoding::Path, lookup)?
            .ok_or_else(|| SiteError("a value of the path is missing".to_owned()))?;
        let mut text = if target.contains("://") {
            target
        } else {
            let base = common.base.as_str().trim_end_matches('/');
            format!("{base}/{}", target.trim_start_matches('/'))
        };
        let mut separator = if text.contains('?') { '&' } else { '?' };
        for (name, value) in pairs(&self.query, Encoding::Query, lookup)? {
            text.push(separator);
            encode_into(&mut text, &name, true);
            text.push('=');
            text.push_str(&value);
            separator = '&';
        }
        let url = Url::parse(&text)
            .map_err(|error| SiteError(format!("`{text}` is not a URL: {error}")))?;
        check_web(&url).map_err(|why| SiteError(format!("`{text}` is refused: {why}")))?;
        let mut headers = pairs(&common.headers, Encoding::Plain, lookup)?;
        for (name, value) in pairs(&self.headers, Encoding::Plain, lookup)? {
            headers.retain(|(other, _)| !other.eq_ignore_ascii_case(&name));
            headers.push((name, value));
        }
        if let Some((name, _)) = headers
            .iter()
            .find(|(_, value)| value.contains(['\r', '\n', '\0']))
        {
            return Err(SiteError(format!(
                "the value of header `{name}` has a line break"
            )));
        }
        let (kind, body) = match &self.body {
            Body::None => (None, String::new()),
            Body::Form(fields) => {
                let mut form = url::form_urlencoded::Serializer::new(String::new());
                for (name, value) in pairs(fields, Encoding::Plain, lookup)? {
                    form.append_pair(&name, &value);
                }
                (Some("application/x-www-form-urlencoded"), form.finish())
            }
            Body::Json(json) => {
                let value = json.render(lookup)?.unwrap_or_else(|| Map::new().into());
                (Some("application/json"), value.to_string())
            }
        };
        if let Some(kind) = kind
            && !headers
                .iter()
                .any(|(name, _)| name.eq_ignore_ascii_case("content-type"))
        {
            headers.push(("content-type".to_owned(), kind.to_owned()));
        }
        Ok(Request {
            method: self.method,
            url,
            headers,
            body: body.into(),
        })
    }
}

/// Whether two URLs are on one host and port; http and https on their own ports count as one.
pub(super) fn same_host(a: &Url, b: &Url) -> bool {
    let own = |url: &Url| url.port().is_none();
    a.host() == b.host()
        && ((own(a) && own(b)) || a.port_or_known_default() == b.port_or_known_default())
}

/// The rendered pairs; those whose optional value is missing are left out.
fn pairs(
    templates: &[(String, Template)],
    encoding: Encoding,
    lookup: Lookup<'_>,
) -> Result<Vec<(String, String)>, SiteError> {
    let mut out = Vec::with_capacity(templates.len());
    for (name, template) in templates {
        if let Some(value) = template.render(encoding, lookup)? {
            out.push((name.clone(), value));
        }
    }
    Ok(out)
}
