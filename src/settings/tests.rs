//! The layers together: precedence, provenance, and what is refused with which words.

use std::path::Path;
use std::time::Duration;

use proptest::prelude::*;
use tempfile::TempDir;

use super::keys::{EGRESS, ENDPOINT, NODE, SITE};
use super::load::DEFAULT_TOML;
use super::*;
use crate::model::{QueryRule, RobotsPolicy, Scope};

/// A configuration directory for one test.
struct Dir(TempDir);

impl Dir {
    fn new(files: &[(&str, &str)]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in files {
            std::fs::write(dir.path().join(name), text).unwrap();
        }
        Self(dir)
    }

    fn options(&self) -> LoadOptions {
        LoadOptions {
            dir: self.0.path().to_owned(),
            dir_required: true,
            ..LoadOptions::default()
        }
    }

    /// Messages, with the directory's name cut out.
    fn errors(&self, options: &LoadOptions) -> Vec<String> {
        let dir = format!("{}/", self.0.path().display());
        let errors = Settings::load(options).expect_err("the settings are refused");
        errors
            .0
            .iter()
            .map(|error| error.to_string().replace(&dir, "DIR/"))
            .collect()
    }
}

fn vars(vars: &[(&str, &str)]) -> Vec<(String, String)> {
    vars.iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect()
}

fn with_vars(given: &[(&str, &str)]) -> LoadOptions {
    LoadOptions {
        dir: "there/is/no/such/directory".into(),
        vars: vars(given),
        ..LoadOptions::default()
    }
}

fn set(key: &str, value: &str) -> Override {
    Override {
        key: key.to_owned(),
        value: value.to_owned(),
        option: format!("--set {key}={value}"),
    }
}

fn with_overrides(overrides: Vec<Override>) -> LoadOptions {
    LoadOptions {
        overrides,
        ..with_vars(&[])
    }
}

fn errors(options: &LoadOptions) -> Vec<String> {
    let errors = Settings::load(options).expect_err("the settings are refused");
    errors.to_string().lines().map(ToOwned::to_owned).collect()
}

/// The settings that `local` comes to, alone above the defaults.
fn local(text: &str) -> Settings {
    Settings::load(&Dir::new(&[("local.toml", text)]).options())
        .unwrap()
        .settings
}

/// The messages for a `local.toml`.
fn local_errors(text: &str) -> Vec<String> {
    let dir = Dir::new(&[("local.toml", text)]);
    dir.errors(&dir.options())
}

#[test]
fn without_anything_the_defaults_hold() {
    let loaded = Settings::load(&with_vars(&[])).unwrap();
    assert_eq!(loaded.settings, Settings::default());
    assert_eq!(loaded.provenance.environment, "development");
    assert!(loaded.provenance.files.is_empty());
}

#[test]
fn the_shipped_file_has_every_key_and_no_other() {
    let table: toml::Table = DEFAULT_TOML.parse().unwrap();
    fn names(above: &str, table: &toml::Table) -> Vec<String> {
        let name = |(key, value): (&String, &toml::Value)| match value {
            toml::Value::Table(below) => names(&format!("{above}{key}."), below),
            _ => vec![format!("{above}{key}")],
        };
        table.iter().flat_map(name).collect()
    }
    let found = names("", &table);
    let keys: Vec<_> = NODE.iter().map(|key| key.name.to_owned()).collect();
    assert_eq!(found, keys, "and in the order in which they are shown");
    // Keys of sites are shown as comments.
    let (_, sites) = DEFAULT_TOML.split_once("# [sites.example]").unwrap();
    let (site, endpoint) = sites
        .split_once("# [sites.example.endpoints.search]")
        .unwrap();
    for name in SITE.iter().map(|key| key.name) {
        assert!(site.contains(&format!("\n# {name} = ")), "{name}");
    }
    for name in ENDPOINT.iter().map(|key| key.name) {
        assert!(endpoint.contains(&format!("\n# {name} = ")), "{name}");
    }
}

#[test]
fn every_key_of_the_shipped_file_has_a_comment() {
    let lines: Vec<_> = DEFAULT_TOML.lines().collect();
    for (index, line) in lines
        .iter()
        .enumerate()
        .filter(|(_, line)| line.contains(" = "))
    {
        assert!(
            line.starts_with('#') || lines[index - 1].starts_with('#'),
            "{line}"
        );
    }
}

#[test]
fn the_commented_examples_of_the_shipped_file_load() {
    let (_, sites) = DEFAULT_TOML.split_once("#\n# [sites").unwrap();
    let (_, egress) = DEFAULT_TOML.split_once("#\n# [egress").unwrap();
    let (egress, _) = egress.split_once("\n\n").unwrap();
    for name in EGRESS.iter().map(|key| key.name) {
        assert!(egress.contains(&format!("\n# {name} = ")), "{name}");
    }
    let text = format!("# [egress{egress}\n# [sites{sites}")
        .replace("# [", "[")
        .replace("\n# ", "\n");
    let settings = local(&text);
    assert_eq!(settings.egress["example"].max_concurrency_num, Some(4));
    assert_eq!(settings.egress_of("example"), ["example", "direct"]);
    assert!(settings.egress_of("another").is_empty());
    let site = &settings.sites["example"];
    assert_eq!(site.limits.burst, Some(5));
    assert_eq!(site.endpoints["search"].max_concurrency_num, Some(2));
}

#[test]
fn the_other_shipped_files_load() {
    let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("config");
    for environment in ["development", "production"] {
        let options = LoadOptions {
            dir: shipped.clone(),
            dir_required: true,
            environment: Some(environment.to_owned()),
            ..LoadOptions::default()
        };
        let loaded = Settings::load(&options).unwrap();
        assert!(loaded.provenance.files[1].1, "{environment}.toml is there");
    }
}

#[test]
fn the_reference_mentions_every_key() {
    let text = include_str!("../../docs/configuration.md");
    for name in NODE.iter().map(|key| key.name) {
        assert!(text.contains(&format!("`{name}`")), "{name}");
    }
    let site = SITE.iter().map(|key| key.name);
    let egress = EGRESS.iter().map(|key| key.name);
    for name in site
        .chain(ENDPOINT.iter().map(|key| key.name))
        .chain(egress)
    {
        assert!(text.contains(&format!("`{name}`")), "{name}");
    }
}

/// Each layer sets one key more than the next one; the last that sets it wins and is named.
#[test]
fn a_later_layer_wins_and_is_named() {
    let dir = Dir::new(&[
        (
            "default.toml",
            "prefetch = 1\nout = \"d\"\nmax_concurrency_num = 2\n[retry]\nmax_attempts = 2\nbase = \"2s\"",
        ),
        (
            "staging.toml",
            "out = \"e\"\nmax_concurrency_num = 3\nretry.max_attempts = 3",
        ),
        (
            "local.toml",
            "max_concurrency_num = 4\n\nretry = { max_attempts = 4 }",
        ),
        ("development.toml", "arbiters = 9"),
    ]);
    let options = LoadOptions {
        vars: vars(&[
            ("CRAWLER_ENV", "staging"),
            ("CRAWLER__MAX_CONCURRENCY_NUM", "5"),
            ("CRAWLER__RETRY__MAX_ATTEMPTS", "5"),
        ]),
        overrides: vec![set("max_concurrency_num", "6")],
        ..dir.options()
    };
    let Loaded {
        settings,
        provenance,
    } = Settings::load(&options).unwrap();
    assert_eq!(settings.max_concurrency_num, 6);
    assert_eq!(settings.retry.max_attempts, 5);
    assert_eq!(settings.retry.base, Duration::from_secs(2));
    assert_eq!(settings.out, Path::new("e"));
    assert_eq!(settings.prefetch, 1);
    assert_eq!(
        settings.arbiters, 0,
        "another environment's file is not read"
    );
    let prefix = format!("{}/", dir.0.path().display());
    let origin = |key: &str| provenance.of(key).unwrap().to_string().replace(&prefix, "");
    assert_eq!(
        origin("max_concurrency_num"),
        "option --set max_concurrency_num=6"
    );
    assert_eq!(
        origin("retry.max_attempts"),
        "variable CRAWLER__RETRY__MAX_ATTEMPTS"
    );
    assert_eq!(origin("out"), "staging.toml:1");
    assert_eq!(origin("prefetch"), "default.toml:1");
    assert_eq!(origin("retry.base"), "default.toml:6");
    assert_eq!(origin("arbiters"), "built-in default");
    assert_eq!(provenance.environment, "staging");
    assert_eq!(provenance.files.len(), 3);
    assert!(provenance.files.iter().all(|(_, there)| *there));

    // Without the two strongest layers, the local file holds.
    let weaker = LoadOptions {
        vars: vars(&[("CRAWLER_ENV", "staging")]),
        ..dir.options()
    };
    let loaded = Settings::load(&weaker).unwrap();
    assert_eq!(loaded.settings.max_concurrency_num, 4);
    assert_eq!(loaded.settings.retry.max_attempts, 4);
    let origin = loaded.provenance.of("retry.max_attempts").unwrap();
    assert_eq!(origin.layer(), Layer::Local);
    assert!(origin.to_string().ends_with("local.toml:3"));
}

#[test]
fn the_prefixed_variable_wins_over_the_plain_one() {
    let plain = Settings::load(&with_vars(&[("MAX_CONCURRENCY_NUM", "7")])).unwrap();
    assert_eq!(plain.settings.max_concurrency_num, 7);
    for order in [
        [
            ("MAX_CONCURRENCY_NUM", "7"),
            ("CRAWLER__MAX_CONCURRENCY_NUM", "8"),
        ],
        [
            ("CRAWLER__MAX_CONCURRENCY_NUM", "8"),
            ("MAX_CONCURRENCY_NUM", "7"),
        ],
    ] {
        let both = Settings::load(&with_vars(&order)).unwrap();
        assert_eq!(both.settings.max_concurrency_num, 8);
        assert_eq!(
            both.provenance
                .of("max_concurrency_num")
                .unwrap()
                .to_string(),
            "variable CRAWLER__MAX_CONCURRENCY_NUM"
        );
    }
}

#[test]
fn the_environment_is_named_by_option_then_variable() {
    let dir = Dir::new(&[("a.toml", "prefetch = 1"), ("b.toml", "prefetch = 2")]);
    let options = LoadOptions {
        environment: Some("a".to_owned()),
        vars: vars(&[("CRAWLER_ENV", "b")]),
        ..dir.options()
    };
    assert_eq!(Settings::load(&options).unwrap().settings.prefetch, 1);
}

#[test]
fn every_kind_of_value_is_read_from_a_file() {
    let settings = local(
        r#"
        max_wait = "1h 30min"
        shutdown_grace = "0s"
        state = "s"
        sites_dir = "d"
        test_time_scale = 1
        [limits]
        max_concurrency_num = 3
        rate = "30/min"
        burst = 4
        quota = ["180/h per account", "5/s"]
        [backoff]
        factor = 3
        jitter = 0.25
        [exchange]
        max_body_bytes = "2 MiB"
        max_header_bytes = 0x10000
        ca_file = "ca.pem"
        [log]
        level = "debug"
        [crawl]
        scope = "domain"
        include = ["/wiki/", "a{1,3}"]
        max_depth = 0
        max_pages = 9
        robots = "off"
        [sites.my-shop]
        base_url = "http://127.0.0.1:8080/x"
        robots = "off"
        rate = "1/10s"
        [sites.my-shop.endpoints.top_10]
        max_concurrency_num = 1
        "#,
    );
    assert_eq!(settings.max_wait, Duration::from_secs(5400));
    assert_eq!(settings.shutdown_grace, Duration::ZERO);
    assert_eq!(settings.state.as_deref(), Some(Path::new("s")));
    assert_eq!(settings.sites_dir.as_deref(), Some(Path::new("d")));
    assert_eq!(settings.limits.max_concurrency_num, Some(3));
    assert_eq!(settings.limits.rate, Some("30/min".parse().unwrap()));
    assert_eq!(settings.limits.burst, Some(4));
    assert_eq!(settings.limits.quota.len(), 2);
    assert!(settings.limits.quota[0].per_account);
    assert_eq!(settings.backoff.factor, 3.0);
    assert_eq!(settings.backoff.jitter, 0.25);
    assert_eq!(settings.exchange.max_body_bytes, 2 * 1024 * 1024);
    assert_eq!(settings.exchange.max_header_bytes, 65_536);
    assert_eq!(
        settings.exchange.ca_file.as_deref(),
        Some(Path::new("ca.pem"))
    );
    assert_eq!(settings.log.level, LogLevel::Debug);
    assert_eq!(settings.crawl.scope, Scope::Domain);
    assert_eq!(settings.crawl.include, ["/wiki/", "a{1,3}"]);
    assert_eq!(settings.crawl.max_depth, Some(0));
    assert_eq!(settings.crawl.max_pages, Some(9));
    assert_eq!(settings.crawl.robots, RobotsPolicy::Off);
    let site = &settings.sites["my-shop"];
    assert_eq!(site.base_url.as_deref(), Some("http://127.0.0.1:8080/x"));
    assert_eq!(site.robots, Some(RobotsPolicy::Off));
    assert_eq!(site.limits.rate, Some("1/10s".parse().unwrap()));
    assert_eq!(site.endpoints["top_10"].max_concurrency_num, Some(1));
}

#[test]
fn text_layers_read_numbers_lists_and_names() {
    let settings = Settings::load(&with_vars(&[
        ("CRAWLER__MAX_CONCURRENCY_NUM", " 12 "),
        ("CRAWLER__BACKOFF__JITTER", "5e-1"),
        ("CRAWLER__LIMITS__QUOTA", "10/s, 180/h per account"),
        ("CRAWLER__CRAWL__INCLUDE", r#"["a{1,3}", 'b']"#),
        ("CRAWLER__CRAWL__EXCLUDE", ""),
        ("CRAWLER__SITES__ZHIHU__RATE", "1/s"),
        ("CRAWLER__SITES__MY_SHOP__ENDPOINTS__TOP_10__BURST", "3"),
        ("CRAWLER__SITES__MY-SHOP__RATE", "2/s"),
        ("CRAWLER__CRAWL__MAX_PAGES", "none"),
        ("PATH", "/bin"),
    ]))
    .unwrap()
    .settings;
    assert_eq!(settings.max_concurrency_num, 12);
    assert_eq!(settings.backoff.jitter, 0.5);
    assert_eq!(settings.limits.quota.len(), 2);
    assert_eq!(settings.crawl.include, ["a{1,3}", "b"]);
    assert!(settings.crawl.exclude.is_empty());
    assert_eq!(
        settings.sites["zhihu"].limits.rate,
        Some("1/s".parse().unwrap())
    );
    let shop = &settings.sites["my-shop"];
    assert_eq!(shop.endpoints["top_10"].burst, Some(3));
    assert_eq!(shop.limits.rate, Some("2/s".parse().unwrap()));
}

/// What loose parsing would turn into a number stays the text that it is.
#[test]
fn texts_that_look_like_numbers_stay_as_they_are() {
    for text in [
        "00123",
        "1e3",
        "12345678901234567890123",
        "nan",
        "true",
        "1.50",
        "0x10",
    ] {
        let settings = Settings::load(&with_vars(&[("CRAWLER__USER_AGENT", text)])).unwrap();
        assert_eq!(settings.settings.user_agent, text);
        let settings = Settings::load(&with_overrides(vec![set("user_agent", text)])).unwrap();
        assert_eq!(settings.settings.user_agent, text);
    }
}

#[test]
fn lists_are_replaced_as_a_whole() {
    let dir = Dir::new(&[
        ("default.toml", "crawl.include = [\"a\", \"b\"]"),
        ("local.toml", "crawl.include = [\"c\"]"),
    ]);
    let settings = Settings::load(&dir.options()).unwrap().settings;
    assert_eq!(settings.crawl.include, ["c"]);
}

#[test]
fn none_takes_back_what_a_lower_layer_set() {
    let dir = Dir::new(&[
        (
            "default.toml",
            "limits.rate = \"1/s\"\nsites.a.rate = \"1/s\"",
        ),
        (
            "local.toml",
            "limits.rate = \"none\"\nsites.a.rate = \"none\"",
        ),
    ]);
    let settings = Settings::load(&dir.options()).unwrap().settings;
    assert_eq!(settings.limits.rate, None);
    assert_eq!(settings.sites["a"].limits.rate, None);
}

const CAP: &str = "allowed: a whole number from 1 to 10000";
const TIME: &str = "allowed: a time with its unit, such as \"10s\" or \"15min\", from 1ms to 1day";

#[test]
fn bad_values_of_a_file_are_refused() {
    let at = |rest: &str| format!("local layer, DIR/local.toml:1: {rest}");
    for (text, message) in [
        ("max_concurrency_num = 0", format!("`max_concurrency_num` was given 0; {CAP}")),
        ("max_concurrency_num = -3", format!("`max_concurrency_num` was given -3; {CAP}")),
        ("max_concurrency_num = 10001", format!("`max_concurrency_num` was given 10001; {CAP}")),
        // No loose conversions.
        ("max_concurrency_num = 2.7", format!("`max_concurrency_num` was given 2.7; {CAP}")),
        ("max_concurrency_num = 2.0", format!("`max_concurrency_num` was given 2.0; {CAP}")),
        ("max_concurrency_num = true", format!("`max_concurrency_num` was given true; {CAP}")),
        ("max_concurrency_num = \"3\"", format!("`max_concurrency_num` was given \"3\"; {CAP}")),
        ("max_concurrency_num = [3]", format!("`max_concurrency_num` was given a list that does not hold texts only; {CAP}")),
        ("max_concurrency_num = {}", format!("`max_concurrency_num` was given a table; {CAP}")),
        ("max_concurrency_num = 1979-05-27", format!("`max_concurrency_num` was given a date or time; {CAP}")),
        ("max_concurrency_num = 9223372036854775808", format!("`max_concurrency_num` was given 9223372036854775808; {CAP}")),
        ("user_agent = 7", "`user_agent` was given 7; allowed: 1 to 256 visible ASCII characters and spaces".to_owned()),
        ("user_agent = 1.50", "`user_agent` was given 1.5; allowed: 1 to 256 visible ASCII characters and spaces".to_owned()),
        ("user_agent = \"a\\r\\nb\"", "`user_agent` was given \"a\\u000D\\u000Ab\"; allowed: 1 to 256 visible ASCII characters and spaces".to_owned()),
        ("user_agent = 1979-05-27", "`user_agent` was given a date or time; allowed: 1 to 256 visible ASCII characters and spaces".to_owned()),
        ("out = \"\"", "`out` was given \"\"; allowed: a path".to_owned()),
        ("retry.base = 10", format!("`retry.base` was given 10; {TIME}")),
        ("retry.base = \"10\"", format!("`retry.base` was given \"10\" (time unit needed, for example 10sec or 10ms); {TIME}")),
        ("retry.base = \"0s\"", format!("`retry.base` was given \"0s\"; {TIME}")),
        ("retry.base = \"2days\"", format!("`retry.base` was given \"2days\"; {TIME}")),
        ("retry = 5", "`retry` is a table and was given 5; its keys: retry.max_attempts, retry.ratio, retry.base, retry.max".to_owned()),
        ("[[retry]]", "`retry` is a table and was given a list that does not hold texts only; its keys: retry.max_attempts, retry.ratio, retry.base, retry.max".to_owned()),
        ("backoff.factor = nan", "`backoff.factor` was given NaN; allowed: a number from 1 to 10".to_owned()),
        ("backoff.factor = inf", "`backoff.factor` was given inf; allowed: a number from 1 to 10".to_owned()),
        ("backoff.jitter = 1.5", "`backoff.jitter` was given 1.5; allowed: a number from 0 to 1".to_owned()),
        ("exchange.max_body_bytes = \"16 pounds\"", "`exchange.max_body_bytes` was given \"16 pounds\" (`pounds` is not a unit of size; allowed: B, kB, KiB, MB, MiB, GB, GiB); allowed: a size, such as \"512 KiB\" or \"16 MiB\", from 1 KiB to 1 GiB".to_owned()),
        ("exchange.max_body_bytes = 5", "`exchange.max_body_bytes` was given 5; allowed: a size, such as \"512 KiB\" or \"16 MiB\", from 1 KiB to 1 GiB".to_owned()),
        ("exchange.max_body_bytes = \"99999999999 GiB\"", "`exchange.max_body_bytes` was given \"99999999999 GiB\" (larger than any size); allowed: a size, such as \"512 KiB\" or \"16 MiB\", from 1 KiB to 1 GiB".to_owned()),
        ("limits.rate = \"2\"", "`limits.rate` was given \"2\" (`2` has no `/`; write for example `2/s`, `30/min`, `180/h`); allowed: a rate, such as \"2/s\", \"30/min\" or \"1/10s\", or \"none\"".to_owned()),
        ("limits.rate = \"0/s\"", "`limits.rate` was given \"0/s\" (a rate of 0 requests is not allowed; allowed: more than 0, at most 1000000); allowed: a rate, such as \"2/s\", \"30/min\" or \"1/10s\", or \"none\"".to_owned()),
        ("limits.quota = \"180/h\"", "`limits.quota` was given \"180/h\"; allowed: a list of quotas, such as [\"180/h\"] or [\"10/s\", \"1000/d\"]".to_owned()),
        ("limits.quota = [\"5/parsec\"]", "`limits.quota` was given [\"5/parsec\"] (`parsec` is not a unit of time; allowed: ms, s, min, h, d); allowed: a list of quotas, such as [\"180/h\"] or [\"10/s\", \"1000/d\"]".to_owned()),
        ("log.level = \"loud\"", "`log.level` was given \"loud\"; allowed: error, warning, info, debug, trace".to_owned()),
        ("crawl.scope = \"all\"", "`crawl.scope` was given \"all\"; allowed: host, domain, prefix".to_owned()),
        ("crawl.include = [\"(\"]", "`crawl.include` was given [\"(\"] (\"(\" is not a regular expression); allowed: a list of regular expressions, such as [\"/wiki/\"]".to_owned()),
        ("crawl.max_pages = 0", "`crawl.max_pages` was given 0; allowed: a whole number from 1 to 9223372036854775807, or \"none\"".to_owned()),
        ("sites.a.base_url = \"ftp://x\"", "`sites.a.base_url` was given \"ftp://x\"; allowed: an http or https URL without user name and password, or \"none\"".to_owned()),
        ("sites.a.max_concurrency_num = 0", format!("`sites.a.max_concurrency_num` was given 0; {CAP}, or \"none\"")),
        ("sites.a = 5", "`sites.a` is a table and was given 5; its keys: sites.a.base_url, sites.a.robots, sites.a.egress, sites.a.crawl_delay, sites.a.cache, sites.a.urls.query, sites.a.urls.drop_params, sites.a.cookies, sites.a.weight, sites.a.mode, sites.a.profile, sites.a.max_concurrency_num, sites.a.rate, sites.a.burst, sites.a.quota, sites.a.total_timeout, sites.a.endpoints.NAME".to_owned()),
        ("crawl.urls.query = \"sorted\"", "`crawl.urls.query` was given \"sorted\"; allowed: exact, sort, sort_unique".to_owned()),
        ("crawl.urls.drop_params = [\"a=b\"]", "`crawl.urls.drop_params` was given [\"a=b\"] (`a=b` is not the name of an option; allowed: a name such as `gclid`, a beginning such as `utm_*`, or one of the sets @tracking and @session); allowed: a list of names of URL parameters, such as [\"gclid\", \"utm_*\", \"@tracking\", \"@session\"]".to_owned()),
        ("sites.a.urls = 5", "`sites.a.urls` is a table and was given 5; its keys: sites.a.urls.query, sites.a.urls.drop_params".to_owned()),
        ("sites.a.urls.drop_param = []", "there is no setting `sites.a.urls.drop_param`; the nearest is `sites.a.urls.drop_params`".to_owned()),
        ("sites.a.\"urls.query\" = \"sort\"", "there is no setting `sites.a.\"urls.query\"`; the nearest is `sites.a.urls.query`".to_owned()),
        ("sites = 5", "`sites` is a table and was given 5; its keys: sites.NAME".to_owned()),
        ("sites.Zhihu.rate = \"1/s\"", "`Zhihu` is not a name of a site; allowed: a-z, 0-9 and `-`".to_owned()),
        ("sites.\"a.b\".rate = \"1/s\"", "`a.b` is not a name of a site; allowed: a-z, 0-9 and `-`".to_owned()),
        ("sites.a_b = { rate = \"1/s\", burst = 2 }", "`a_b` is not a name of a site; allowed: a-z, 0-9 and `-`".to_owned()),
        ("sites.a.endpoints.\"x y\".rate = \"1/s\"", "`x y` is not a name of an endpoint; allowed: a-z, 0-9, `-` and `_`".to_owned()),
        ("max_concurency_num = 8", "there is no setting `max_concurency_num`; the nearest is `max_concurrency_num`".to_owned()),
        ("rate = \"1/s\"", "there is no setting `rate`; the nearest is `limits.rate`".to_owned()),
        ("retry.attempts = 8", "there is no setting `retry.attempts`; the nearest is `retry.max_attempts`".to_owned()),
        ("Max_Wait = \"1s\"", "there is no setting `Max_Wait`; the nearest is `max_wait`".to_owned()),
        ("\"retry.base\" = \"1s\"", "there is no setting `\"retry.base\"`; the nearest is `retry.base`".to_owned()),
        ("max_wait.more = 1", "there is no setting `max_wait.more`; the nearest is `max_wait`".to_owned()),
        ("sites.a.raet = \"1/s\"", "there is no setting `sites.a.raet`; the nearest is `sites.a.rate`".to_owned()),
        ("sites.a.endpoints.b.quotas = []", "there is no setting `sites.a.endpoints.b.quotas`; the nearest is `sites.a.endpoints.b.quota`".to_owned()),
        ("prefetch = ", "not TOML: string values must be quoted, expected literal string (column 12)".to_owned()),
        ("prefetch = 1\nprefetch = 2", "not TOML: duplicate key (column 1)".to_owned()),
        ("backoff.base = \"10min\"", "`backoff.base` is \"10m\", and `backoff.max` is \"5m\"; allowed: backoff.base at most backoff.max".to_owned()),
        ("retry.max = \"10ms\"", "`retry.base` is \"1s\", and `retry.max` is \"10ms\"; allowed: retry.base at most retry.max".to_owned()),
    ] {
        let expected = if message.contains("duplicate") {
            at(&message).replace(":1:", ":2:")
        } else {
            at(&message)
        };
        assert_eq!(local_errors(text), [expected], "{text}");
    }
}

#[test]
fn bad_values_of_the_text_layers_are_refused() {
    for (value, given) in [
        ("0", "\"0\""),
        ("-1", "\"-1\""),
        ("2.7", "\"2.7\""),
        ("true", "\"true\""),
        ("0x10", "\"0x10\""),
        ("1_000", "\"1_000\""),
        ("", "\"\""),
        (
            "99999999999999999999999999999999999999999999",
            "\"99999999999999999999999999999999999999999999\"",
        ),
    ] {
        assert_eq!(
            errors(&with_vars(&[("MAX_CONCURRENCY_NUM", value)])),
            [format!(
                "environment variables, variable MAX_CONCURRENCY_NUM: `max_concurrency_num` was given {given}; {CAP}"
            )]
        );
        assert_eq!(
            errors(&with_overrides(vec![Override {
                key: "max_concurrency_num".to_owned(),
                value: value.to_owned(),
                option: format!("--max_concurrency_num {value}"),
            }])),
            [format!(
                "command line, option --max_concurrency_num {value}: `max_concurrency_num` was given {given}; {CAP}"
            )]
        );
    }
}

#[test]
fn variables_that_fit_no_key_are_refused() {
    for (name, nearest) in [
        ("CRAWLER_WORKERS", None),
        ("CRAWLER__WORKERS", None),
        ("CRAWLER_", None),
        ("CRAWLER__", None),
        (
            "CRAWLER_MAX_CONCURRENCY_NUM",
            Some("CRAWLER__MAX_CONCURRENCY_NUM"),
        ),
        (
            "CRAWLER__MAX_CONCURENCY_NUM",
            Some("CRAWLER__MAX_CONCURRENCY_NUM"),
        ),
        ("CRAWLER__RETRY_BASE", Some("CRAWLER__RETRY__BASE")),
        ("CRAWLER__RETRY__BASIS", Some("CRAWLER__RETRY__BASE")),
        ("CRAWLER_ENVIRONMENT", Some("CRAWLER_ENV")),
        (
            "CRAWLER__SITES__MY_SHOP__RAET",
            Some("CRAWLER__SITES__MY_SHOP__RATE"),
        ),
        (
            "CRAWLER__CRAWL__INCLUDE__0",
            Some("CRAWLER__CRAWL__INCLUDE"),
        ),
        (
            "CRAWLER__CRAWL__INCLUDE[0]",
            Some("CRAWLER__CRAWL__INCLUDE"),
        ),
    ] {
        let found = errors(&with_vars(&[(name, "hidden")]));
        let start = format!(
            "environment variables, variable {name}: there is no setting `{name}`; the nearest is `CRAWLER_"
        );
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with(&start), "{found:?}");
        assert!(
            !found[0].contains("hidden"),
            "a value that no key takes may be a secret"
        );
        if let Some(nearest) = nearest {
            assert!(found[0].ends_with(&format!("`{nearest}`")), "{found:?}");
        }
    }
    for ignored in [
        "CRAWLER",
        "CRAWLERS",
        "MAX_WAIT",
        "crawler__x",
        "MY_CRAWLER__X",
    ] {
        assert!(
            Settings::load(&with_vars(&[(ignored, "x")])).is_ok(),
            "{ignored}"
        );
    }
}

#[test]
fn a_key_is_set_once_in_a_layer() {
    assert_eq!(
        errors(&with_overrides(vec![
            set("prefetch", "1"),
            Override {
                key: "max_concurrency_num".to_owned(),
                value: "2".to_owned(),
                option: "--max-concurrency-num 2".to_owned(),
            },
            set("max_concurrency_num", "2"),
        ])),
        [
            "command line, option --set max_concurrency_num=2: `max_concurrency_num` is set twice in this layer, also by option --max-concurrency-num 2; name it once"
        ]
    );
    assert_eq!(
        errors(&with_vars(&[
            ("CRAWLER__SITES__A_B__RATE", "1/s"),
            ("CRAWLER__SITES__A-B__RATE", "2/s"),
        ])),
        [
            "environment variables, variable CRAWLER__SITES__A-B__RATE: `sites.a-b.rate` is set twice in this layer, also by variable CRAWLER__SITES__A_B__RATE; name it once"
        ]
    );
}

#[test]
fn all_problems_of_all_layers_come_out_at_once() {
    let dir = Dir::new(&[
        ("default.toml", "prefetch = -1\nnope = 1\n"),
        ("development.toml", "not toml"),
        (
            "local.toml",
            "\nlog.level = 3\n[sites.UP]\nrate = 1\nburst = 1",
        ),
    ]);
    let options = LoadOptions {
        vars: vars(&[("CRAWLER__RETRY__BASE", "soon"), ("CRAWLER_X", "1")]),
        // A good value above a bad one does not hide it.
        overrides: vec![set("prefetch", "5"), set("retry", "5")],
        ..dir.options()
    };
    let found = dir.errors(&options);
    let starts = [
        "default layer, DIR/default.toml:1: `prefetch` was given -1",
        "default layer, DIR/default.toml:2: there is no setting `nope`",
        "environment layer, DIR/development.toml:1: not TOML: ",
        "local layer, DIR/local.toml:2: `log.level` was given 3",
        "local layer, DIR/local.toml:4: `UP` is not a name of a site",
        "environment variables, variable CRAWLER_X: there is no setting",
        "environment variables, variable CRAWLER__RETRY__BASE: `retry.base` was given \"soon\"",
        "command line, option --set retry=5: `retry` is a table",
    ];
    assert_eq!(found.len(), starts.len(), "{found:#?}");
    for (found, start) in found.iter().zip(starts) {
        assert!(found.starts_with(start), "{found}");
    }
}

#[test]
fn secrets_stay_out_of_messages() {
    for text in [
        "sites.a.base_url = \"ftp://me:hidden@host/\"",
        "sites.a.base_url = \"https://me:hidden@host/\"",
        "sites.a.base_url = \"//me:hidden@host\"",
        "pasword = \"hidden\"",
        "password = hidden",
        "egress.a.url = \"http://me:hidden@host/\"",
        "egress.a = { url = \"http://host:1\", username = \"me\", password = \"hid\\nhidden\" }",
        "egress.a.password = [\"hidden\"]",
    ] {
        let found = local_errors(text).join("\n");
        assert!(!found.contains("hidden"), "{found}");
    }
    let secret = Secret::new("hidden");
    assert_eq!(
        format!("{secret} {secret:?} {:?}", Some(&secret)),
        "*** *** Some(***)"
    );
    assert_eq!(secret.expose(), "hidden");
}

#[test]
fn egresses_are_checked() {
    for (text, said) in [
        (
            "exchange.egress = [\"b\"]\n[egress.a]\nurl = \"http://h:1\"",
            "the nearest is",
        ),
        (
            "sites.s.egress = [\"proxi\"]\n[egress.proxy]\nurl = \"http://h:1\"",
            "the nearest is `proxy`",
        ),
        (
            "[egress.a]\nurl = \"https://h:1\"",
            "http, socks5 or socks5h",
        ),
        (
            "[egress.a]\nurl = \"http://h:1/path\"",
            "http, socks5 or socks5h",
        ),
        (
            "[egress.a]\nusername = \"me\"",
            "`egress.a.url` was given nothing",
        ),
        (
            "[egress.a]\nurl = \"http://h:1\"\npassword = \"p\"",
            "a password goes with a user name",
        ),
        (
            "[egress.a]\nurl = \"http://h:1\"\nexpires = \"tomorrow\"",
            "a moment with its zone",
        ),
        (
            "[egress.a]\nurl = \"http://h:1\"\ntls_verify = \"no\"",
            "true or false",
        ),
        (
            "[egress.a]\nurll = \"http://h:1\"",
            "the nearest is `egress.a.url`",
        ),
        (
            "[egress.A]\nurl = \"http://h:1\"",
            "is not a name of an egress",
        ),
        (
            "[egress.direct]\nurl = \"http://h:1\"",
            "the way without a proxy",
        ),
    ] {
        let found = local_errors(text).join("\n");
        assert!(found.contains(said), "{text}: {found}");
    }
}

#[test]
fn a_password_comes_from_the_environment_and_is_shown_nowhere() {
    let mut options = with_vars(&[
        ("CRAWLER__EGRESS__MY_PROXY__URL", "socks5h://h:1"),
        ("CRAWLER__EGRESS__MY_PROXY__USERNAME", "me"),
        ("CRAWLER__EGRESS__MY_PROXY__PASSWORD", "hidden"),
        ("CRAWLER__EXCHANGE__EGRESS", "my-proxy, direct"),
    ]);
    let over = set("egress.my-proxy.password", "hidden2");
    assert!(over.option.contains("hidden2"));
    options.overrides.push(over);
    let loaded = Settings::load(&options).unwrap();
    let egress = &loaded.settings.egress["my-proxy"];
    assert_eq!(egress.password.as_ref().unwrap().expose(), "hidden2");
    assert_eq!(loaded.settings.egress_of("any"), ["my-proxy", "direct"]);
    let shown: Vec<_> = loaded
        .entries()
        .iter()
        .map(|entry| format!("{} {} {}", entry.key, entry.value, entry.origin))
        .collect();
    assert!(!shown.join("\n").contains("hidden"), "{shown:?}");
    assert!(!format!("{loaded:?}").contains("hidden"));
}

#[test]
fn a_directory_that_was_named_must_be_there() {
    let dir = Dir::new(&[("file", "")]);
    let missing = LoadOptions {
        dir: dir.0.path().join("none"),
        ..dir.options()
    };
    assert_eq!(
        dir.errors(&missing),
        ["the configuration directory DIR/none does not exist"]
    );
    let optional = LoadOptions {
        dir_required: false,
        ..missing
    };
    assert!(Settings::load(&optional).is_ok());
    let file = LoadOptions {
        dir: dir.0.path().join("file"),
        dir_required: false,
        ..dir.options()
    };
    assert_eq!(
        dir.errors(&file),
        ["the configuration directory DIR/file is not a directory"]
    );
}

#[test]
fn a_file_that_cannot_be_read_is_a_problem() {
    let dir = Dir::new(&[]);
    std::fs::create_dir(dir.0.path().join("local.toml")).unwrap();
    std::fs::write(dir.0.path().join("default.toml"), b"out = \"\xff\"").unwrap();
    let found = dir.errors(&dir.options());
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(
        found[0].starts_with("default layer, DIR/default.toml: cannot be read: "),
        "{found:?}"
    );
    assert!(
        found[1].starts_with("local layer, DIR/local.toml: cannot be read: "),
        "{found:?}"
    );
}

#[test]
fn names_of_environments_are_checked() {
    for name in ["", "../etc/passwd", "local", "default", "Prod", "a.b"] {
        let by_variable = errors(&with_vars(&[("CRAWLER_ENV", name)]));
        assert_eq!(
            by_variable,
            [format!(
                "environment variables, variable CRAWLER_ENV: `{name}` is not a name of an environment; allowed: a-z, 0-9, `-` and `_`, except `default` and `local`"
            )]
        );
        let options = LoadOptions {
            environment: Some(name.to_owned()),
            ..with_vars(&[])
        };
        assert_eq!(errors(&options).len(), 1);
    }
}

#[test]
fn absent_files_are_noted() {
    let dir = Dir::new(&[("local.toml", "")]);
    let provenance = Settings::load(&dir.options()).unwrap().provenance;
    let found: Vec<_> = provenance
        .files
        .iter()
        .map(|(path, there)| (path.file_name().unwrap().to_str().unwrap(), *there))
        .collect();
    assert_eq!(
        found,
        [
            ("default.toml", false),
            ("development.toml", false),
            ("local.toml", true)
        ]
    );
}

/// Keys that are none: up to three parts that no setting starts with.
fn unknown_key() -> impl Strategy<Value = String> {
    "[a-z][a-z_]{0,10}(\\.[a-z][a-z_]{0,6}){0,2}".prop_filter("a key or a table", |key| {
        let parts: Vec<_> = key.split('.').collect();
        !key.contains("__")
            && !key
                .split('.')
                .any(|part| part.ends_with('_') || part.starts_with('_'))
            && matches!(super::keys::locate(&parts), super::keys::Located::Unknown)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// An unknown key is named, in whichever layer it stands, with a valid one beside it.
    #[test]
    fn an_unknown_key_is_named_in_any_layer(key in unknown_key(), layer in 0usize..5) {
        let files = ["default.toml", "development.toml", "local.toml"];
        let found = match files.get(layer) {
            Some(file) => {
                let dir = Dir::new(&[(file, &format!("{key} = 1"))]);
                let found = dir.errors(&dir.options());
                let place = format!("DIR/{file}:1");
                prop_assert!(found[0].contains(&place));
                found
            }
            None if layer == 3 => {
                let name = format!("CRAWLER__{}", key.replace('.', "__").to_uppercase());
                let found = errors(&with_vars(&[(&name, "1")]));
                let named = format!("`{name}`");
                prop_assert!(found[0].contains(&named));
                prop_assert_eq!(found.len(), 1);
                return Ok(());
            }
            None => errors(&with_overrides(vec![set(&key, "1")])),
        };
        prop_assert_eq!(found.len(), 1);
        let named = format!("there is no setting `{}`; the nearest is `", key);
        prop_assert!(found[0].contains(&named), "{:?}", found);
    }

    /// Whatever a file, a variable or an option holds: an answer, and never a panic.
    #[test]
    fn no_text_makes_loading_panic(text in any::<String>(), key in "[a-z_.]{0,20}", value in any::<String>()) {
        let dir = Dir::new(&[("local.toml", &text)]);
        let options = LoadOptions {
            vars: vec![(format!("CRAWLER__{}", key.to_uppercase()), value.clone())],
            overrides: vec![set(&key, &value)],
            ..dir.options()
        };
        let _ = Settings::load(&options);
    }

    /// A cap is taken if and only if it is from 1 to 10000, from every layer alike.
    #[test]
    fn caps_are_taken_within_their_range(cap in prop_oneof![-5i64..10_010, any::<i64>()]) {
        let good = (1..=10_000).contains(&cap);
        let dir = Dir::new(&[("local.toml", &format!("max_concurrency_num = {cap}"))]);
        let loads = [
            dir.options(),
            with_vars(&[("MAX_CONCURRENCY_NUM", &cap.to_string())]),
            with_overrides(vec![set("max_concurrency_num", &cap.to_string())]),
        ];
        for options in loads {
            let loaded = Settings::load(&options);
            prop_assert_eq!(loaded.is_ok(), good);
            if let Ok(loaded) = loaded {
                prop_assert_eq!(i64::from(loaded.settings.max_concurrency_num), cap);
            }
        }
    }

    /// Sizes and rates are shown so that they read back as they were.
    #[test]
    fn sizes_read_back(bytes in 0u64..(1 << 40)) {
        prop_assert_eq!(super::value::parse_bytes(&super::value::write_bytes(bytes)), Ok(bytes));
    }

    /// The printed form of a rate is the rate.
    #[test]
    fn rates_read_back(count in 1u32..1_000_000, window in 1u64..100_000_000) {
        let rate: Rate = format!("{count}/{window}ms").parse().unwrap();
        prop_assert_eq!(rate.to_string().parse::<Rate>(), Ok(rate));
        let quota: Quota = format!("{count}/{window}ms").parse().unwrap();
        prop_assert_eq!(quota.to_string().parse::<Quota>(), Ok(quota));
    }
}

/// The messages shown in the reference are those that are given.
#[test]
fn the_reference_shows_true_messages() {
    let text = include_str!("../../docs/configuration.md");
    let file = local_errors("\n\nmax_concurrency_num = 0\n\n\n\nmax_concurency_num = 8");
    let variable = errors(&with_vars(&[("CRAWLER_WORKERS", "4")]));
    let option = errors(&with_overrides(vec![set("retry.base", "10")]));
    for message in file.iter().chain(&variable).chain(&option) {
        let message = message.replace("DIR/", "config/");
        assert!(text.lines().any(|line| line == message), "{message}");
    }
}

#[test]
fn url_rules_are_set_for_all_and_for_one_site() {
    let settings = local(
        r#"
        [crawl.urls]
        query = "sort"
        drop_params = ["utm_*", "@session"]
        [sites.a]
        urls.drop_params = []
        [sites.b.urls]
        query = "sort_unique"
    "#,
    );
    let all = &settings.crawl.urls;
    assert_eq!(all.query, QueryRule::Sort);
    let names: Vec<String> = all.drop_params.iter().map(ToString::to_string).collect();
    assert_eq!(names, ["utm_*", "@session"]);
    let a = settings.sites["a"].urls.over(all);
    assert_eq!((a.query, a.drop_params.len()), (QueryRule::Sort, 0));
    let b = settings.sites["b"].urls.over(all);
    assert_eq!((b.query, b.drop_params.len()), (QueryRule::SortUnique, 2));
}
