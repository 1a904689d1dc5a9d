//! `sessions`: brings the cookies of a logged-in browser, shows what there is, and removes it.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use url::Url;

use super::args::Common;
use super::failure::{Failure, printed};
use super::{load, table};
use crate::exchange::cookies::import::{self, Imported, Wanted};
use crate::exchange::cookies::registrable;
use crate::model::{AccountKey, Cookie, UnixMillis};
use crate::settings::Settings;
use crate::site::{CrawlSite, Site, SiteDefinition};
use crate::store::{StateError, StateFolder};

/// An import is a list of cookies, not a backup of a browser.
const MOST_BYTES: u64 = 8 * 1024 * 1024;
/// Characters of an account's name.
const LONGEST_ACCOUNT: usize = 64;

/// Options of `sessions`.
#[derive(Debug, Args)]
pub(super) struct SessionsArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Take in cookies that a browser or another tool wrote: a Netscape cookies.txt, a JSON export, or a Cookie header
    Import(ImportArgs),
    /// List the cookies that are kept, without their values
    List(ListArgs),
    /// Remove the cookies of an account
    Remove(Whose),
}

#[derive(Debug, Args)]
struct Whose {
    /// Site, by name
    #[arg(long, value_name = "SITE")]
    site: String,
    /// Account of the site
    #[arg(long, value_name = "NAME", default_value = AccountKey::DEFAULT)]
    account: String,
    /// Directory of your site definitions
    #[arg(long, value_name = "DIR")]
    sites: Option<PathBuf>,
}

#[derive(Debug, Args)]
struct ImportArgs {
    #[command(flatten)]
    whose: Whose,
    /// File to read; `-`: standard input
    #[arg(long, value_name = "FILE")]
    file: PathBuf,
    /// Domain of a Cookie header, which names none [default: the host of the site's base_url]
    #[arg(long, value_name = "DOMAIN")]
    domain: Option<String>,
    /// Keep what the account has, and add to it
    #[arg(long)]
    add: bool,
}

#[derive(Debug, Args)]
struct ListArgs {
    /// Only of this site
    #[arg(long, value_name = "SITE")]
    site: Option<String>,
}

/// Do what `sessions` was asked for.
pub(super) fn run(common: &Common, args: &SessionsArgs) -> Result<u8, Failure> {
    let settings = load::settings(common, &[])?.settings;
    let folder = StateFolder::of(settings.state.clone());
    match &args.action {
        Action::Import(args) => import(&settings, &folder, args),
        Action::List(args) => list(&folder, args),
        Action::Remove(whose) => {
            let (key, _) = whose.find(&settings)?;
            let removed = match folder.existing_cookies().map_err(state)? {
                Some(mut cookies) => cookies.clear(&key).map_err(state)?,
                None => 0,
            };
            told(&format!("{key}: {} removed", counted(removed)))
        }
    }
}

fn state(StateError(why): StateError) -> Failure {
    Failure::internal(why)
}

fn told(text: &str) -> Result<u8, Failure> {
    printed(writeln!(io::stdout().lock(), "{text}"))
}

fn counted(cookies: usize) -> String {
    match cookies {
        1 => "1 cookie".to_owned(),
        count => format!("{count} cookies"),
    }
}

impl Whose {
    /// The account, and the definition of its site where there is one.
    fn find(&self, settings: &Settings) -> Result<(AccountKey, Option<SiteDefinition>), Failure> {
        let fits = |c: char| c.is_ascii_alphanumeric() || "-_.@".contains(c);
        if !(1..=LONGEST_ACCOUNT).contains(&self.account.len()) || !self.account.chars().all(fits) {
            return Err(Failure::usage(format!(
                "--account {}: no name of an account; allowed: 1 to {LONGEST_ACCOUNT} of a-z, A-Z, 0-9, `-`, `_`, \
                 `.` and `@`",
                self.account
            )));
        }
        let dir = self.sites.as_deref().or(settings.sites_dir.as_deref());
        let definitions = load::definitions(dir)?;
        let key = AccountKey {
            site: self.site.as_str().into(),
            account: self.account.as_str().into(),
        };
        let mut known = vec![CrawlSite::DEFAULT_NAME];
        known.extend(definitions.iter().map(|definition| &**definition.name()));
        if !known.contains(&self.site.as_str()) {
            let nearest = known
                .iter()
                .max_by(|a, b| strsim::jaro(a, &self.site).total_cmp(&strsim::jaro(b, &self.site)));
            return Err(Failure::usage(format!(
                "--site {}: there is no site of this name; nearest: {}; known: {}",
                self.site,
                nearest.copied().unwrap_or_default(),
                known.join(", ")
            )));
        }
        let definition = definitions
            .into_iter()
            .find(|definition| **definition.name() == *self.site);
        let definition = match (definition, settings.sites.get(&self.site)) {
            (Some(definition), Some(set)) => Some(
                definition
                    .with_settings(set)
                    .map_err(|errors| Failure::usage(errors.to_string()))?,
            ),
            (definition, _) => definition,
        };
        Ok((key, definition))
    }
}

/// Which cookies an import may bring.
struct Scope {
    own: Vec<String>,
    domain: String,
    secure: bool,
}

impl Scope {
    /// The site's own domains; a crawl without a definition has those that it is told.
    fn of(definition: Option<&SiteDefinition>, domain: Option<&str>) -> Result<Self, Failure> {
        let domain = domain
            .map(|text| {
                let bare = text.strip_prefix('.').unwrap_or(text);
                url::Host::parse(bare).map(|host| host.to_string()).map_err(|_| {
                    Failure::usage(format!(
                        "--domain {text}: not the name of a host; allowed: a name like example.com"
                    ))
                })
            })
            .transpose()?;
        let Some(definition) = definition else {
            let domain = domain.ok_or_else(|| {
                Failure::usage(format!(
                    "--domain: site {} has no base_url; name the domain whose cookies are meant, for example \
                     --domain example.com",
                    CrawlSite::DEFAULT_NAME
                ))
            })?;
            return Ok(Self {
                own: vec![registrable(&domain).to_owned()],
                domain,
                secure: true,
            });
        };
        let base = definition.base_url();
        let starts = definition.crawl_urls().iter();
        let starts = starts.filter_map(|text| Url::parse(text).ok());
        let mut own: Vec<String> = std::iter::once(base.clone())
            .chain(starts)
            .filter_map(|url| Some(registrable(url.host_str()?).to_owned()))
            .collect();
        own.sort();
        own.dedup();
        let domain = domain.unwrap_or_else(|| base.host_str().unwrap_or_default().to_owned());
        if !own.iter().any(|own| own == registrable(&domain)) {
            return Err(Failure::usage(format!(
                "--domain {domain}: not a domain of site {}; allowed: {} and what lies below",
                definition.name(),
                own.join(", ")
            )));
        }
        Ok(Self {
            own,
            domain,
            secure: base.scheme() == "https",
        })
    }
}

fn import(settings: &Settings, folder: &StateFolder, args: &ImportArgs) -> Result<u8, Failure> {
    let (key, definition) = args.whose.find(settings)?;
    let scope = Scope::of(definition.as_ref(), args.domain.as_deref())?;
    let name = match args.file == Path::new("-") {
        true => "standard input".to_owned(),
        false => args.file.display().to_string(),
    };
    let text = read(&args.file, &name)?;
    let wanted = Wanted {
        own: &scope.own,
        domain: &scope.domain,
        secure: scope.secure,
    };
    let imported = import::read(&text, &wanted, UnixMillis::now()).map_err(|errors| {
        let lines: Vec<String> = errors
            .0
            .iter()
            .map(|why| format!("{name}: {why}"))
            .collect();
        Failure::usage(lines.join("\n"))
    })?;
    let own = scope.own.join(", ");
    let left = left_out(&imported);
    if imported.cookies.is_empty() {
        return Err(Failure::usage(format!(
            "{name}: it holds no cookie of site {} (its domains: {own}){left}; nothing was changed",
            key.site
        )));
    }
    let mut store = folder.cookies().map_err(state)?;
    let before = store.load(&key).map_err(state)?.len();
    store
        .store(&key, !args.add, &imported.cookies, &[])
        .map_err(state)?;
    let gone = match args.add || before == 0 {
        true => String::new(),
        false => format!("; {} that it had are gone", counted(before)),
    };
    told(&format!(
        "{key}: {} of {own} taken from {name} ({}){left}{gone}",
        counted(imported.cookies.len()),
        imported.form.as_str()
    ))
}

fn left_out(imported: &Imported) -> String {
    let mut text = String::new();
    for (count, why) in [
        (imported.foreign, "of other sites left out"),
        (imported.expired, "that had ended left out"),
    ] {
        if count > 0 {
            text.push_str(&format!("; {} {why}", counted(count)));
        }
    }
    text
}

fn read(file: &Path, name: &str) -> Result<String, Failure> {
    let wrong = |error: io::Error| Failure::usage(format!("{name}: {error}"));
    let source: Box<dyn Read> = match file == Path::new("-") {
        true => Box::new(io::stdin().lock()),
        false => Box::new(File::open(file).map_err(wrong)?),
    };
    let mut bytes = Vec::new();
    source
        .take(MOST_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(wrong)?;
    if bytes.len() as u64 > MOST_BYTES {
        return Err(Failure::usage(format!(
            "{name}: it is larger than {} MiB",
            MOST_BYTES / (1024 * 1024)
        )));
    }
    String::from_utf8(bytes).map_err(|_| Failure::usage(format!("{name}: it is not UTF-8 text")))
}

fn list(folder: &StateFolder, args: &ListArgs) -> Result<u8, Failure> {
    let kept = match folder.existing_cookies().map_err(state)? {
        Some(cookies) => cookies.list().map_err(state)?,
        None => Vec::new(),
    };
    let wanted = |key: &AccountKey| args.site.as_deref().is_none_or(|site| site == &*key.site);
    let kept: Vec<_> = kept.into_iter().filter(|(key, _)| wanted(key)).collect();
    if kept.is_empty() {
        return told("no cookies are kept");
    }
    let header = [
        "site", "account", "domain", "path", "name", "value", "ends", "goes to",
    ];
    let mut listed = table::table(&header, header.len());
    let now = UnixMillis::now();
    for (key, cookie) in &kept {
        listed.add_row([
            key.site.to_string(),
            key.account.to_string(),
            cookie.domain.clone(),
            cookie.path.clone(),
            String::from_utf8_lossy(&cookie.name).into_owned(),
            format!("({} bytes)", cookie.value.len()),
            ends(cookie, now),
            goes_to(cookie),
        ]);
    }
    told(&listed.to_string())
}

fn ends(cookie: &Cookie, now: UnixMillis) -> String {
    match cookie.expires {
        None => "with the session".to_owned(),
        Some(_) if cookie.is_expired(now) => "has ended".to_owned(),
        Some(end) => end.to_string(),
    }
}

fn goes_to(cookie: &Cookie) -> String {
    let hosts = match cookie.host_only {
        true => "this host",
        false => "subdomains too",
    };
    match cookie.secure {
        true => format!("{hosts}, https only"),
        false => hosts.to_owned(),
    }
}
