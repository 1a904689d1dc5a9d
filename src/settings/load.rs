//! Loading: every layer is read and checked by itself, then the `config` crate merges them.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use config::{Config, Value};

use super::env::{self, Variable};
use super::error::{Problem, SettingsError, SettingsErrors};
use super::field::Field;
use super::file;
use super::keys::{Located, locate};
use super::layer::{Checker, LayerSource, Leaf, Origins, leaves, written};
use super::loaded::Loaded;
use super::origin::{Layer, Origin, Provenance};
use super::schema::Settings;

/// The built-in defaults.
pub(super) const DEFAULT_TOML: &str = include_str!("../../config/default.toml");
const DEFAULT_ENVIRONMENT: &str = "development";

/// What is loaded, and from where. Nothing is taken from the process by itself: variables are handed in.
#[derive(Clone, Debug)]
pub struct LoadOptions {
    /// The configuration directory.
    pub dir: PathBuf,
    /// Whether the directory must exist: the user named it.
    pub dir_required: bool,
    /// The environment, whose file is read; `None`: that of `CRAWLER_ENV`, else `development`.
    pub environment: Option<String>,
    /// The environment variables.
    pub vars: Vec<(String, String)>,
    /// What the command line sets.
    pub overrides: Vec<Override>,
}

impl Default for LoadOptions {
    /// The directory `config`, if it is there; no variables, no overrides.
    fn default() -> Self {
        Self {
            dir: PathBuf::from("config"),
            dir_required: false,
            environment: None,
            vars: Vec::new(),
            overrides: Vec::new(),
        }
    }
}

/// One setting from the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Override {
    /// The full key, such as `retry.base`.
    pub key: String,
    /// The value, as text.
    pub value: String,
    /// The option as it was given, for messages: `--max_concurrency_num 8`, `--set retry.base=2s`.
    pub option: String,
}

impl Settings {
    /// Loads the layers; a later one wins: built-in defaults, `default.toml`, `{environment}.toml`,
    /// `local.toml`, environment variables, command line.
    ///
    /// # Errors
    /// All problems of all layers at once. A bad value is one even where a later layer overrides it.
    pub fn load(options: &LoadOptions) -> Result<Loaded, SettingsErrors> {
        let mut loader = Loader::default();
        loader.text(DEFAULT_TOML, |line| Origin::BuiltIn { line });
        let environment = loader.environment(options);
        if loader.directory(options) {
            let files = [
                (Layer::Default, Some("default")),
                (Layer::Environment, environment.as_deref()),
                (Layer::Local, Some("local")),
            ];
            for (layer, name) in files {
                if let Some(name) = name {
                    loader.file(layer, options.dir.join(format!("{name}.toml")));
                }
            }
        }
        loader.variables(&options.vars);
        loader.overrides(&options.overrides);
        loader.merge(environment.unwrap_or_default())
    }
}

#[derive(Default)]
struct Loader {
    origins: Origins,
    errors: Vec<SettingsError>,
    layers: Vec<LayerSource>,
    files: Vec<(PathBuf, bool)>,
}

impl Loader {
    /// The environment's name, when it is a good one.
    fn environment(&mut self, options: &LoadOptions) -> Option<String> {
        let variable = options
            .vars
            .iter()
            .rev()
            .find(|(name, _)| name == env::ENVIRONMENT);
        let (name, origin) = match (&options.environment, variable) {
            (Some(name), _) => (name.as_str(), None),
            (None, Some((variable, name))) => (
                name.as_str(),
                Some(Origin::Variable {
                    name: variable.clone(),
                }),
            ),
            (None, None) => (DEFAULT_ENVIRONMENT, None),
        };
        // The name becomes a file's: nothing that leads to another directory, or to another layer's file.
        let good = !name.is_empty()
            && name
                .bytes()
                .all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_'))
            && !matches!(name, "default" | "local");
        if good {
            return Some(name.to_owned());
        }
        self.errors.push(SettingsError {
            origin,
            problem: Problem::EnvironmentName {
                given: name.to_owned(),
            },
        });
        None
    }

    /// Whether there is a directory to read.
    fn directory(&mut self, options: &LoadOptions) -> bool {
        let dir = &options.dir;
        let reason = match fs::metadata(dir) {
            Ok(meta) if meta.is_dir() => return true,
            Ok(_) => "is not a directory".to_owned(),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                if !options.dir_required {
                    return false;
                }
                "does not exist".to_owned()
            }
            Err(error) => format!("cannot be read: {error}"),
        };
        self.errors.push(SettingsError {
            origin: None,
            problem: Problem::Directory {
                dir: dir.clone(),
                reason,
            },
        });
        false
    }

    fn file(&mut self, layer: Layer, path: PathBuf) {
        let at = |line| file_origin(layer, &path, line);
        match fs::read_to_string(&path) {
            Ok(text) => self.text(&text, |line| at(Some(line))),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                self.files.push((path, false));
                return;
            }
            Err(error) => self.errors.push(SettingsError::at(
                at(None),
                Problem::Unreadable(error.to_string()),
            )),
        }
        self.files.push((path, true));
    }

    fn text(&mut self, text: &str, origin: impl Fn(usize) -> Origin) {
        let origins = &mut self.origins;
        match file::parse(text, &mut |line| origins.add(origin(line))) {
            Ok(parsed) => {
                self.layer(parsed.leaves);
                for (line, path, kind) in parsed.strange {
                    let parts: Vec<_> = path.iter().map(String::as_str).collect();
                    let problem = match locate(&parts) {
                        Located::Key(place) => Problem::Value {
                            key: written(&path),
                            given: kind.to_owned(),
                            detail: None,
                            allowed: place.allowed(),
                        },
                        _ => Problem::Unknown {
                            key: written(&path),
                            nearest: super::keys::nearest(&parts),
                        },
                    };
                    self.errors.push(SettingsError::at(origin(line), problem));
                }
            }
            Err(error) => self.errors.push(SettingsError::at(
                origin(error.line),
                Problem::Syntax(error.message),
            )),
        }
    }

    fn variables(&mut self, vars: &[(String, String)]) {
        let mut plain = Vec::new();
        let mut prefixed = Vec::new();
        for (name, value) in vars {
            let origin = Origin::Variable { name: name.clone() };
            match env::classify(name) {
                Variable::Foreign => {}
                Variable::Unknown(problem) => self.errors.push(SettingsError::at(origin, problem)),
                Variable::Key {
                    path,
                    plain: is_plain,
                } => {
                    let leaf = self.text_leaf(path, value, origin);
                    if is_plain { &mut plain } else { &mut prefixed }.push(leaf);
                }
            }
        }
        // The order of variables means nothing; messages should not depend on it.
        prefixed.sort_by(|a, b| a.path.cmp(&b.path));
        self.twice(&prefixed);
        plain.append(&mut prefixed);
        self.layer(plain);
    }

    fn overrides(&mut self, overrides: &[Override]) {
        let leaves: Vec<_> = overrides
            .iter()
            .map(|given| {
                let path = given.key.split('.').map(ToOwned::to_owned).collect();
                let origin = Origin::Option {
                    given: masked(given),
                };
                self.text_leaf(path, &given.value, origin)
            })
            .collect();
        self.twice(&leaves);
        self.layer(leaves);
    }

    fn text_leaf(&mut self, path: Vec<String>, value: &str, origin: Origin) -> Leaf {
        let origin = self.origins.add(origin);
        Leaf {
            path,
            value: Value::new(Some(&origin), value),
        }
    }

    /// Refuses a key that the leaves of one layer set twice.
    fn twice(&mut self, leaves: &[Leaf]) {
        let mut seen = BTreeMap::new();
        for leaf in leaves {
            let Some(first) = seen.insert(&leaf.path, leaf) else {
                continue;
            };
            if let (Some(first), Some(second)) =
                (self.origins.of(&first.value), self.origins.of(&leaf.value))
            {
                let problem = Problem::Twice {
                    key: written(&leaf.path),
                    other: first.clone(),
                };
                self.errors.push(SettingsError::at(second.clone(), problem));
            }
        }
    }

    /// Checks the leaves of a layer and keeps the good ones.
    fn layer(&mut self, leaves: Vec<Leaf>) {
        let mut checker = Checker::new(&self.origins, &mut self.errors);
        let mut source = LayerSource::default();
        let mut scratch = Settings::default();
        for leaf in leaves {
            if checker.check(&leaf, &mut scratch) {
                source.set(leaf);
            }
        }
        self.layers.push(source);
    }

    /// Merges the layers and reads the outcome.
    fn merge(mut self, environment: String) -> Result<Loaded, SettingsErrors> {
        let mut builder = Config::builder();
        for layer in std::mem::take(&mut self.layers) {
            builder = builder.add_source(layer);
        }
        let mut settings = Settings::default();
        let mut provenance = Provenance {
            environment,
            files: std::mem::take(&mut self.files),
            ..Provenance::default()
        };
        match builder.build() {
            Ok(merged) => {
                let mut checker = Checker::new(&self.origins, &mut self.errors);
                for leaf in leaves(&merged.cache) {
                    if checker.check(&leaf, &mut settings)
                        && let Some(origin) = self.origins.of(&leaf.value)
                    {
                        provenance
                            .origins
                            .insert(leaf.path.join("."), origin.clone());
                    }
                }
            }
            Err(error) => self.errors.push(SettingsError {
                origin: None,
                problem: Problem::Merge(error.to_string()),
            }),
        }
        self.errors.extend(conflicts(&settings, &provenance));
        let egress = super::egress::problems(&settings, &provenance);
        self.errors.extend(egress);
        if self.errors.is_empty() {
            Ok(Loaded {
                settings,
                provenance,
            })
        } else {
            Err(SettingsErrors(self.errors))
        }
    }
}

/// The option as it is told: a secret that it sets is not.
fn masked(given: &Override) -> String {
    let path: Vec<_> = given.key.split('.').collect();
    match locate(&path) {
        Located::Key(place) if place.is_secret() && !given.value.is_empty() => {
            given.option.replace(&given.value, "***")
        }
        _ => given.option.clone(),
    }
}

fn file_origin(layer: Layer, path: &Path, line: Option<usize>) -> Origin {
    Origin::File {
        layer,
        path: path.to_owned(),
        line,
    }
}

/// Settings that are good by themselves and do not go together, named at the one that was set last.
fn conflicts(settings: &Settings, provenance: &Provenance) -> Vec<SettingsError> {
    let pairs = [
        (
            "backoff.base",
            settings.backoff.base,
            "backoff.max",
            settings.backoff.max,
        ),
        (
            "retry.base",
            settings.retry.base,
            "retry.max",
            settings.retry.max,
        ),
    ];
    pairs
        .into_iter()
        .filter(|(_, low, _, high)| low > high)
        .map(|(key, low, other, high)| SettingsError {
            origin: [key, other]
                .iter()
                .filter_map(|key| provenance.of(key))
                .max_by_key(|origin| origin.layer())
                .cloned(),
            problem: Problem::Conflict {
                key: key.to_owned(),
                value: Field::show(&low).to_string(),
                other: other.to_owned(),
                other_value: Field::show(&high).to_string(),
                allowed: format!("{key} at most {other}"),
            },
        })
        .collect()
}
