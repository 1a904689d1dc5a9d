//! CPU time of one small exchange, beside the same request made with bare awc and with reqwest:
//! `cargo bench --bench exchange`.
//!
//! The server is a thread that answers on kept connections; only the client's thread is measured, by the kernel's own
//! count (`/proc/thread-self/schedstat`, so on Linux only). Rounds take turns.

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

/// Bytes of a body: an answer of an API, and a page.
const SIZES: [usize; 2] = [200, 8192];

struct Permit(Instant);

impl ExchangePermit for Permit {
    type Receipt = ();

    fn deadline(&self) -> Instant {
        self.0
    }

    fn release(self, _: bool) {}
}

fn serve(size: usize) -> std::io::Result<u16> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let port = listener.local_addr()?.port();
    let answer = format!(
        "HTTP/1.1 200 OK\r\nServer: bench\r\nDate: Mon, 30 Nov 2026 20:00:00 GMT\r\nContent-Type: text/html\r\n\
         ETag: \"abc\"\r\nCache-Control: max-age=60\r\nVary: Accept\r\nContent-Length: {size}\r\n\r\n{}",
        "x".repeat(size)
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

type Failure = Box<dyn std::error::Error>;

/// Microseconds of this thread for one of [`REQUESTS`] requests, each of which gives the length of its body.
async fn each<F>(size: usize, mut ask: impl FnMut() -> F) -> Result<f64, Failure>
where
    F: Future<Output = Result<usize, Failure>>,
{
    let start = cpu();
    for _ in 0..REQUESTS {
        assert_eq!(ask().await?, size);
    }
    Ok((cpu() - start) as f64 / f64::from(REQUESTS) / 1000.0)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

async fn compare(size: usize) -> Result<(), Failure> {
    let url = Url::parse(&format!("http://127.0.0.1:{}/page", serve(size)?))?;
    let ours = Client::new(&Settings::default().exchange, "bench")?;
    let bare = awc::Client::builder().disable_redirects().finish();
    let peer = reqwest::Client::builder().build()?;
    let (mut of_awc, mut of_ours, mut of_peer) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let with_awc = || async {
            let sent = bare.get(url.as_str()).send().await;
            let mut answer = sent.map_err(|error| error.to_string())?;
            Ok(answer.body().await?.len())
        };
        of_awc.push(each(size, with_awc).await?);
        let with_ours = || async {
            let permit = Permit(Instant::now() + Duration::from_secs(60));
            let exchanged = ours.exchange(permit, &Request::get(url.clone())).await;
            Ok(exchanged.result?.body.len())
        };
        of_ours.push(each(size, with_ours).await?);
        let with_peer = || async {
            let answer = peer.get(url.clone()).send().await?;
            Ok(answer.bytes().await?.len())
        };
        of_peer.push(each(size, with_peer).await?);
    }
    let (awc, ours, peer) = (median(of_awc), median(of_ours), median(of_peer));
    println!(
        "{size} bytes: awc {awc:.2} us, exchange {ours:.2} us, reqwest {peer:.2} us of CPU each"
    );
    println!(
        "  requests per CPU-second of the exchange: {:.2} of awc's, {:.2} of reqwest's",
        awc / ours,
        peer / ours
    );
    Ok(())
}

fn main() -> Result<(), Failure> {
    println!("Kept connection, one request after another, CPU of the client's thread:");
    actix_rt::System::new().block_on(async {
        for size in SIZES {
            compare(size).await?;
        }
        Ok(())
    })
}
