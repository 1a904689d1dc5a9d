//! What may be typed.

use std::path::PathBuf;

use clap::{ArgGroup, Args, Parser, Subcommand, value_parser};

use super::inputs::InputArgs;
use super::sessions::SessionsArgs;
use crate::calibrate::Share;
use crate::model::{Format, Mode, RobotsPolicy, Scope};
use crate::settings::Rate;
use crate::sim::simulator::Law;

/// An actor-based crawl engine that keeps every site's limits and loses nothing.
#[derive(Debug, Parser)]
#[command(name = "crawler-node", version, arg_required_else_help = true)]
pub struct Cli {
    #[command(flatten)]
    pub(super) common: Common,
    #[command(subcommand)]
    pub(super) command: Command,
}

/// Options of every command.
#[derive(Debug, Args)]
pub(super) struct Common {
    /// Directory of the configuration files [default: config]
    #[arg(long, global = true, value_name = "DIR")]
    pub(super) config: Option<PathBuf>,
    /// Set any configuration key, for example `--set exchange.total_timeout=30s`; may be repeated
    #[arg(long, global = true, value_name = "KEY=VALUE")]
    pub(super) set: Vec<String>,
    /// Exchanges in flight at once, over all sites and jobs of this node [default: 1; demo: 8]
    #[arg(
        long,
        alias = "max_concurrency_num",
        global = true,
        value_name = "N",
        allow_negative_numbers = true
    )]
    pub(super) max_concurrency_num: Option<String>,
    /// Directory of what belongs to you and not to a job: used quota, sessions, later caches
    #[arg(long, global = true, value_name = "DIR")]
    pub(super) state: Option<PathBuf>,
    /// Least severe level that is logged: error, warning, info, debug or trace
    #[arg(long, global = true, value_name = "LEVEL")]
    pub(super) log_level: Option<String>,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Crawl the built-in loopback sites, and compare what their servers saw with what the crawler believes
    Demo(DemoArgs),
    /// Run the job of a directory, or go on where it stopped
    Crawl(Box<CrawlArgs>),
    /// Find the concurrency that a site takes, by real requests at rising levels
    Calibrate(Box<CalibrateArgs>),
    /// Show each effective setting and where it came from
    Config(ConfigArgs),
    /// List the site definitions, or check files
    Sites(SitesArgs),
    /// Bring, list and remove the cookies of accounts
    Sessions(SessionsArgs),
    /// Show the report of a job's last run
    Report(ReportArgs),
    /// The concurrency for a rate and a latency, by Little's law
    Plan(PlanArgs),
    /// Try the rate control against a described server, in virtual time
    Simulate(SimulateArgs),
}

/// Options of `demo`.
#[derive(Debug, Args)]
pub(super) struct DemoArgs {
    /// Keep what was crawled in this directory [default: a temporary one]
    #[arg(long, value_name = "DIR")]
    pub(super) out: Option<PathBuf>,
    /// Write the comparison as JSON too
    #[arg(long, value_name = "FILE")]
    pub(super) report: Option<PathBuf>,
}

/// Options of `crawl`.
#[derive(Debug, Args)]
pub(super) struct CrawlArgs {
    /// Sites to crawl, by name
    #[arg(long, value_name = "SITE", value_delimiter = ',')]
    pub(super) site: Vec<String>,
    /// What the job starts from: search, detail, creator or crawl
    #[arg(long, default_value = "crawl")]
    pub(super) mode: Mode,
    #[command(flatten)]
    pub(super) inputs: InputArgs,
    /// Start URLs, for mode crawl; may be repeated
    #[arg(long, value_name = "URL", num_args = 1..)]
    pub(super) urls: Vec<String>,
    /// Items per keyword or creator, and ids in mode detail
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(1..), allow_negative_numbers = true)]
    pub(super) max_items: Option<u64>,
    /// Comments per item
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(1..), allow_negative_numbers = true)]
    pub(super) max_comments: Option<u64>,
    /// Where records and the job's state go [default: data]
    #[arg(long, value_name = "DIR")]
    pub(super) out: Option<PathBuf>,
    /// Forms of output
    #[arg(long, value_delimiter = ',', default_value = "jsonl")]
    pub(super) format: Vec<Format>,
    /// Write the report as JSON
    #[arg(long, value_name = "FILE")]
    pub(super) report: Option<PathBuf>,
    /// Directory of your site definitions
    #[arg(long, value_name = "DIR")]
    pub(super) sites: Option<PathBuf>,
    /// Pace of each site (in mode crawl: of each host), for example 2/s or 30/min
    #[arg(long)]
    pub(super) rate: Option<Rate>,
    /// Which links are followed: host, domain or prefix
    #[arg(long)]
    pub(super) scope: Option<Scope>,
    /// Follow only URLs that match this regular expression; may be repeated
    #[arg(long, value_name = "REGEX")]
    pub(super) include: Vec<String>,
    /// Follow no URL that matches this regular expression; may be repeated
    #[arg(long, value_name = "REGEX")]
    pub(super) exclude: Vec<String>,
    /// Links away from the start
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(0..), allow_negative_numbers = true)]
    pub(super) max_depth: Option<u32>,
    /// Pages to store
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(1..), allow_negative_numbers = true)]
    pub(super) max_pages: Option<u64>,
    /// Whether robots.txt is obeyed: obey or off
    #[arg(long)]
    pub(super) robots: Option<RobotsPolicy>,
    /// The User-Agent to send
    #[arg(long, value_name = "TEXT")]
    pub(super) user_agent: Option<String>,
    /// Archive what the directory holds and start over
    #[arg(long)]
    pub(super) fresh: bool,
}

/// Options of `calibrate`.
#[derive(Debug, Args)]
pub(super) struct CalibrateArgs {
    /// Page to ask for again and again
    #[arg(long, value_name = "URL")]
    pub(super) url: Option<String>,
    /// Pages to ask for in turn; may be repeated
    #[arg(long, value_name = "URL", num_args = 1..)]
    pub(super) urls: Vec<String>,
    /// Site whose first requests of a job are made in turn, by name
    #[arg(long, value_name = "SITE")]
    pub(super) site: Option<String>,
    /// What that job starts from: search, detail, creator or crawl [default: what the inputs are for]
    #[arg(long)]
    pub(super) mode: Option<Mode>,
    #[command(flatten)]
    pub(super) inputs: InputArgs,
    /// Directory of your site definitions
    #[arg(long, value_name = "DIR")]
    pub(super) sites: Option<PathBuf>,
    /// Levels to climb, rising [default: 1,2,4,8,... up to the ceiling]
    #[arg(long, value_delimiter = ',', value_name = "1,2,4")]
    pub(super) levels: Vec<u32>,
    /// Ceiling of the levels [default: the max_concurrency_num that is configured, else 16]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(super) max: Option<String>,
    /// Seconds per level, 0.1 to 3600
    #[arg(
        long,
        value_name = "S",
        default_value = "10",
        allow_negative_numbers = true
    )]
    pub(super) seconds: f64,
    /// Share of a level that does not count, while it warms up
    #[arg(long, value_name = "SHARE", default_value = "20%")]
    pub(super) warmup: Share,
    /// Largest share of bad answers
    #[arg(long, value_name = "SHARE", default_value = "5%")]
    pub(super) max_errors: Share,
    /// How sure that must be
    #[arg(long, value_name = "SHARE", default_value = "95%")]
    pub(super) confidence: Share,
    /// Requests in all levels together; each level has an equal part
    #[arg(
        long,
        value_name = "N",
        default_value = "10000",
        allow_negative_numbers = true
    )]
    pub(super) max_requests: u64,
    /// Ceiling of the pace, below those that are configured, for example 2/s or 30/min
    #[arg(long)]
    pub(super) rate: Option<Rate>,
    /// Write what was found into local.toml of the configuration directory
    #[arg(long)]
    pub(super) write: bool,
    /// As JSON
    #[arg(long)]
    pub(super) json: bool,
    /// File that the result goes to; `-`: standard output
    #[arg(long, value_name = "FILE", default_value = "-")]
    pub(super) out: PathBuf,
}

/// Options of `config`.
#[derive(Debug, Args)]
pub(super) struct ConfigArgs {
    /// `show` is the only action, and the default
    #[arg(value_parser = ["show"])]
    pub(super) action: Option<String>,
    /// As JSON
    #[arg(long)]
    pub(super) json: bool,
}

/// Options of `sites`.
#[derive(Debug, Args)]
pub(super) struct SitesArgs {
    /// Definition files to check
    #[arg(value_name = "FILE")]
    pub(super) files: Vec<PathBuf>,
    /// Directory of your site definitions
    #[arg(long, value_name = "DIR")]
    pub(super) sites: Option<PathBuf>,
}

/// Options of `report`.
#[derive(Debug, Args)]
pub(super) struct ReportArgs {
    /// The job's directory [default: data]
    #[arg(long, value_name = "DIR")]
    pub(super) out: Option<PathBuf>,
    /// As JSON, as `--report FILE` writes it
    #[arg(long)]
    pub(super) json: bool,
}

/// Options of `plan`.
#[derive(Debug, Args)]
pub(super) struct PlanArgs {
    /// Requests per second that the site allows
    #[arg(long, value_name = "R", allow_negative_numbers = true)]
    pub(super) rps: f64,
    /// Mean time of one exchange, in seconds
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true)]
    pub(super) latency: f64,
}

/// Options of `simulate`.
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("what").required(true).args(["scenario", "list", "benchmark"])))]
pub(super) struct SimulateArgs {
    /// A file that describes a scenario, or the name of a built-in one
    #[arg(value_name = "FILE|NAME")]
    pub(super) scenario: Option<String>,
    /// List the built-in scenarios and the laws
    #[arg(long)]
    pub(super) list: bool,
    /// Decides everything that is drawn at random
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(super) seed: u64,
    /// How long it runs, in virtual seconds, in place of what the scenario says
    #[arg(long, value_name = "S", value_parser = value_parser!(u64).range(1..=604_800), allow_negative_numbers = true)]
    pub(super) seconds: Option<u64>,
    /// The law that the clients follow
    #[arg(long, value_name = "NAME", default_value = "ours")]
    pub(super) law: Law,
    /// Write a picture of the run
    #[arg(long, value_name = "FILE")]
    pub(super) svg: Option<PathBuf>,
    /// As JSON, with what happened over time
    #[arg(long)]
    pub(super) json: bool,
    /// Compare laws over all built-in scenarios
    #[arg(long, conflicts_with_all = ["seed", "seconds", "law", "svg", "json"])]
    pub(super) benchmark: bool,
    /// Runs of each scenario [default: 10]; with --random scenarios that are drawn [default: 100]
    #[arg(long, value_name = "N", requires = "benchmark", value_parser = value_parser!(u64).range(1..=10_000), allow_negative_numbers = true)]
    pub(super) seeds: Option<u64>,
    /// Laws to compare: all, ours, peers, or names
    #[arg(
        long,
        value_name = "A,B",
        requires = "benchmark",
        value_delimiter = ',',
        default_value = "ours"
    )]
    pub(super) laws: Vec<String>,
    /// Scenarios with parameters drawn at random, a tried set and a sealed one
    #[arg(long, requires = "benchmark")]
    pub(super) random: bool,
    /// Tables for a document
    #[arg(long, requires = "benchmark")]
    pub(super) markdown: bool,
}
