//! The server's own count never exceeds the cap, in any mode, with two sites and two jobs at once.

use std::path::Path;
use std::time::Duration;

use crawler_node::settings::LimitMode;
use crawler_node::sim::{ApiSite, HtmlSite, Knobs, Latency, Server, SimConfig, SiteSpec};
use crawler_node::{Engine, Job, SiteDefinition};

use crate::support::settings;

const LATENCY: Duration = Duration::from_millis(50);

fn knobs() -> Knobs {
    Knobs {
        latency: Latency::Fixed(LATENCY),
        ..Knobs::default()
    }
}

fn api() -> ApiSite {
    ApiSite {
        items: 8,
        max_comments: 4,
        ..ApiSite::new(3)
    }
}

fn server() -> Server {
    Server::start(SimConfig {
        sites: vec![
            SiteSpec::new("demo-api", api()).knobs(knobs()),
            SiteSpec::new("web", HtmlSite::new(3, 20)).knobs(knobs()),
        ],
        log_limit: 0,
    })
    .expect("the built-in sites")
}

fn engine(server: &Server, dir: &Path, cap: u32) -> Engine {
    let base = server.base_url("demo-api").expect("the API site");
    let definition = SiteDefinition::parse("demo-api.toml", &ApiSite::definition(&base))
        .expect("a good definition");
    let mut settings = settings(dir, cap);
    settings.test_time_scale = 1.0;
    // The cap is what is measured: a search for the pace would stay below it.
    settings.limits.mode = Some(LimitMode::Fixed);
    Engine::builder(settings)
        .definition(definition)
        .start()
        .expect("an engine")
}

/// Two jobs at once, in one process, on two sites; gives the peak that the server saw.
async fn peak(jobs: impl FnOnce(&Server) -> [Job; 2], cap: u32) -> u32 {
    let server = server();
    let dir = tempfile::tempdir().expect("a directory");
    let engine = engine(&server, dir.path(), cap);
    let [first, second] = jobs(&server);
    let first = engine
        .submit(first.out(dir.path().join("first")))
        .await
        .expect("submitted");
    let second = engine
        .submit(second.out(dir.path().join("second")))
        .await
        .expect("submitted");
    for job in [first, second] {
        let report = job.wait().await.expect("ended");
        assert_eq!(report.exit_code, 0, "{report:?}");
        assert!(report.peak_in_flight <= cap);
    }
    engine.drain().await;
    server.stop().peak_in_flight
}

fn pages(server: &Server) -> Job {
    Job::crawl([format!(
        "{}/",
        server.base_url("web").expect("the HTML site")
    )])
}

macro_rules! caps {
    ($($name:ident: $cap:literal, $jobs:expr;)+) => {$(
        #[actix_rt::test]
        async fn $name() {
            assert_eq!(peak($jobs, $cap).await, $cap);
        }
    )+};
}

fn search(server: &Server) -> [Job; 2] {
    [Job::search("demo-api", ["rust"]), pages(server)]
}

fn detail(server: &Server) -> [Job; 2] {
    let base = server.base_url("demo-api").expect("the API site");
    let urls = api()
        .found("rust")
        .into_iter()
        .map(move |id| api().item_url(&base, id));
    [Job::detail("demo-api", urls), pages(server)]
}

fn creator(server: &Server) -> [Job; 2] {
    [
        Job::creator("demo-api", [api().creator_id(0), api().creator_id(1)]),
        pages(server),
    ]
}

fn one_site_twice(_: &Server) -> [Job; 2] {
    [
        Job::search("demo-api", ["rust"]),
        Job::search("demo-api", ["actors"]),
    ]
}

caps! {
    search_and_crawl_with_a_cap_of_1: 1, search;
    search_and_crawl_with_a_cap_of_3: 3, search;
    search_and_crawl_with_a_cap_of_8: 8, search;
    detail_and_crawl_with_a_cap_of_1: 1, detail;
    detail_and_crawl_with_a_cap_of_3: 3, detail;
    detail_and_crawl_with_a_cap_of_8: 8, detail;
    creator_and_crawl_with_a_cap_of_1: 1, creator;
    creator_and_crawl_with_a_cap_of_3: 3, creator;
    creator_and_crawl_with_a_cap_of_8: 8, creator;
    two_jobs_on_one_site_with_a_cap_of_3: 3, one_site_twice;
}
