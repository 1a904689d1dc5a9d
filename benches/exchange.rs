//! CPU time of one small exchange, beside the same request made with bare awc: `cargo bench --bench exchange`.
//!
//! The server is a thread that answers 8 KiB on kept connections; only the client's thread is measured, by the
//! kernel's own count (`/proc/thread-self/schedstat`, so on Linux only). Rounds alternate.

#![allow(clippy::print_stdout, reason = "a program that prints figures")]

use std::io::{Read, Write};
use std::net::TcpListener;
use std::time::Duration;

use crawler_node::exchange::{Client, ExchangePermit};
use crawler_node::model::Request;
use crawler_node::settings::Settings;
use tokio::time::Instant;
use url::Url;

const REQUESTS: u32 = 20_000;
const ROUNDS: usize = 7;

struct Permit(Instant);

impl ExchangePermit for Permit {
    type Receipt = ();

    fn deadline(&self) -> Instant {
        self.0
    }

    fn release(self, _: bool) {}
}

fn serve() -> std::io::Result<u16> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let port = listener.local_addr()?.port();
    let answer = format!(
        "HTTP/1.1 200 OK\r\nServer: bench\r\nDate: Mon, 30 Nov 2026 20:00:00 GMT\r\nContent-Type: text/html\r\n\
         ETag: \"abc\"\r\nCache-Control: max-age=60\r\nVary: Accept\r\nContent-Length: 8192\r\n\r\n{}",
        "x".repeat(8192)
    );
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let answer = answer.clone();
            std::thread::spawn(move || {
                let _ = stream.set_nodelay(true);
                let mut buffer = [0; 4096];
                while stream.read(&mut buffer).is_ok_and(|count| count > 0) {
                    if stream.write_all(answer.as_bytes()).is_err() {
                        return;
                    }
                }
            });
        }
    });
    Ok(port)
}

/// Nanoseconds that this thread has spent on a processor.
fn cpu() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let first = text.split(' ').next().and_then(|word| word.parse().ok());
    first.unwrap_or_default()
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let port = serve()?;
    let url = Url::parse(&format!("http://127.0.0.1:{port}/page"))?;
    actix_rt::System::new().block_on(async {
        let client = Client::new(&Settings::default().exchange, "bench")?;
        let bare = awc::Client::builder().disable_redirects().finish();
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            let start = cpu();
            for _ in 0..REQUESTS {
                let mut answer = bare
                    .get(url.as_str())
                    .send()
                    .await
                    .map_err(|e| e.to_string())?;
                assert_eq!(answer.body().await?.len(), 8192);
            }
            let middle = cpu();
            for _ in 0..REQUESTS {
                let permit = Permit(Instant::now() + Duration::from_secs(60));
                let exchanged = client.exchange(permit, &Request::get(url.clone())).await;
                assert_eq!(exchanged.result?.body.len(), 8192);
            }
            let per = |nanos: u64| nanos as f64 / f64::from(REQUESTS) / 1000.0;
            theirs.push(per(middle - start));
            ours.push(per(cpu() - middle));
        }
        let median = |values: &mut Vec<f64>| {
            values.sort_by(f64::total_cmp);
            values[ROUNDS / 2]
        };
        let (ours, theirs) = (median(&mut ours), median(&mut theirs));
        println!("8 KiB, kept connection, CPU of the client per exchange:");
        println!(
            "bare awc {theirs:.2} us, exchange {ours:.2} us, ratio {:.2}",
            theirs / ours
        );
        Ok(())
    })
}
