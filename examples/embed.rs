//! A crawl engine inside an actix-web application: `POST /crawl` starts a job and streams its records.
//!
//! ```text
//! cargo run --example embed -- 127.0.0.1:8080 data
//! curl -N -d '{"urls": ["https://example.com/"], "max_pages": 20}' -H 'content-type: application/json' \
//!     http://127.0.0.1:8080/crawl
//! ```

use std::io::{Error, Write};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use actix_web::{App, HttpResponse, HttpServer, get, post, web};
use crawler_node::{Engine, Job, Settings};
use futures_util::StreamExt;
use serde::Deserialize;

/// What may be asked for.
#[derive(Deserialize)]
struct CrawlRequest {
    urls: Vec<String>,
    max_pages: Option<u64>,
}

/// What the handlers share. The engine's handle may be used from every worker thread.
struct Shared {
    engine: Engine,
    out: PathBuf,
    next: AtomicU64,
}

/// Start a job, and send each record as a line of JSON once it is committed.
#[post("/crawl")]
async fn crawl(shared: web::Data<Shared>, request: web::Json<CrawlRequest>) -> HttpResponse {
    let number = shared.next.fetch_add(1, Ordering::Relaxed);
    let request = request.into_inner();
    let mut job = Job::crawl(request.urls).out(shared.out.join(format!("job-{number}")));
    job.crawl.max_pages = request.max_pages;
    match shared.engine.submit_streaming(job).await {
        Err(error) if error.is_usage() => HttpResponse::BadRequest().body(error.to_string()),
        Err(error) => HttpResponse::InternalServerError().body(error.to_string()),
        Ok((_, records)) => HttpResponse::Ok()
            .content_type("application/x-ndjson")
            .streaming(records.map(|stored| {
                let mut line = serde_json::to_vec(&stored.record.fields)?;
                line.push(b'\n');
                Ok::<_, serde_json::Error>(web::Bytes::from(line))
            })),
    }
}

/// What the governor holds: caps, lanes, pauses.
#[get("/governor")]
async fn governor(shared: web::Data<Shared>) -> HttpResponse {
    match shared
        .engine
        .governor()
        .ask(crawler_node::governor::Snapshot)
        .await
    {
        Some(snapshot) => HttpResponse::Ok().json(snapshot),
        None => HttpResponse::ServiceUnavailable().finish(),
    }
}

#[actix_web::main]
async fn main() -> std::io::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let address = arguments
        .next()
        .unwrap_or_else(|| "127.0.0.1:8080".to_owned());
    let out = PathBuf::from(arguments.next().unwrap_or_else(|| "data".to_owned()));
    let settings = Settings {
        max_concurrency_num: 4,
        state: Some(out.join("state")),
        ..Settings::default()
    };
    let engine = Engine::builder(settings).start().map_err(Error::other)?;
    let shared = web::Data::new(Shared {
        engine: engine.clone(),
        out,
        next: AtomicU64::new(1),
    });
    let server = HttpServer::new(move || {
        App::new()
            .app_data(shared.clone())
            .service(crawl)
            .service(governor)
    })
    .workers(2)
    .bind(&address)?;
    for address in server.addrs() {
        let mut out = std::io::stdout();
        writeln!(out, "listening on http://{address}")?;
        out.flush()?;
    }
    server.run().await?;
    engine.stop(std::time::Duration::from_secs(10));
    engine.drain().await;
    Ok(())
}
