//! What a job starts from, as it is typed: the same for every command that has a job.

use clap::Args;

use super::failure::Failure;
use crate::model::{Inputs, Mode};

/// Inputs of modes search, detail and creator.
#[derive(Debug, Args)]
pub(super) struct InputArgs {
    /// Keywords, for mode search
    #[arg(long, value_delimiter = ',', value_name = "A,B")]
    keywords: Vec<String>,
    /// Ids or URLs of items, for mode detail
    #[arg(long, value_delimiter = ',', value_name = "A,B")]
    ids: Vec<String>,
    /// Ids or URLs of creators, for mode creator
    #[arg(long, value_delimiter = ',', value_name = "A,B")]
    creators: Vec<String>,
}

/// An input that was given: the mode it belongs to, and its option.
pub(super) type GivenInput = (Mode, &'static str);

impl InputArgs {
    /// Which were given. `urls`: the option of the start URLs, and whether there are any.
    pub(super) fn given(&self, (option, urls): (&'static str, bool)) -> Vec<GivenInput> {
        let all = [
            (Mode::Search, "--keywords", !self.keywords.is_empty()),
            (Mode::Detail, "--ids", !self.ids.is_empty()),
            (Mode::Creator, "--creators", !self.creators.is_empty()),
            (Mode::Crawl, option, urls),
        ];
        let given = all.into_iter().filter(|(.., given)| *given);
        given.map(|(mode, option, _)| (mode, option)).collect()
    }

    /// The inputs of a job.
    pub(super) fn inputs(&self, urls: Vec<String>) -> Inputs {
        Inputs {
            keywords: self.keywords.clone(),
            ids: self.ids.clone(),
            creators: self.creators.clone(),
            urls,
        }
    }
}

/// # Errors
/// When one of them belongs to another mode.
pub(super) fn fit(given: &[GivenInput], mode: Mode) -> Result<(), Failure> {
    match given.iter().find(|(own, _)| *own != mode) {
        None => Ok(()),
        Some((own, option)) => Err(Failure::usage(format!(
            "{option} belongs to --mode {own}, but the mode is {mode}"
        ))),
    }
}
