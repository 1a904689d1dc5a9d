//! The example application, over real HTTP.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use crawler_node::sim::{HtmlSite, Server, SimConfig, SiteSpec};
use serde_json::{Value, json};

use crate::support::DEADLINE;

/// Cargo builds the examples with the tests, beside their folder.
fn example() -> PathBuf {
    let mut path = std::env::current_exe().expect("own path");
    path.pop();
    path.pop();
    path.join("examples/embed")
}

struct App {
    child: Child,
    address: String,
}

impl App {
    fn start(out: &std::path::Path) -> Self {
        let mut child = Command::new(example())
            .args(["127.0.0.1:0".as_ref(), out.as_os_str()])
            .stdout(Stdio::piped())
            .spawn()
            .expect("the example starts");
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().expect("piped"))
            .read_line(&mut line)
            .expect("its address");
        let address = line
            .trim()
            .trim_start_matches("listening on http://")
            .to_owned();
        Self { child, address }
    }

    fn ask(&self, method: &str, path: &str, body: &Value) -> (String, String) {
        let mut stream = TcpStream::connect(&self.address).expect("connected");
        stream.set_read_timeout(Some(DEADLINE)).expect("a deadline");
        let body = body.to_string();
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\ncontent-type: application/json\r\n\
             content-length: {}\r\n\r\n{body}",
            self.address,
            body.len()
        )
        .expect("asked");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
        (head.to_owned(), body.to_owned())
    }
}

impl Drop for App {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The data of a chunked body whose chunks may split lines.
fn unchunked(mut body: &str) -> String {
    let mut data = String::new();
    while let Some((size, rest)) = body.split_once("\r\n") {
        let size = usize::from_str_radix(size.trim(), 16).expect("a chunk size");
        if size == 0 {
            break;
        }
        data.push_str(&rest[..size]);
        body = &rest[size + 2..];
    }
    data
}

#[test]
fn an_application_starts_jobs_and_streams_their_records() {
    let site = HtmlSite::new(9, 30);
    let server =
        Server::start(SimConfig::one(SiteSpec::new("web", site.clone()))).expect("the site");
    let dir = tempfile::tempdir().expect("a directory");
    let app = App::start(dir.path());
    let url = format!("{}/", server.base_url("web").expect("the site"));
    for _ in 0..2 {
        let (head, body) = app.ask("POST", "/crawl", &json!({ "urls": [url] }));
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        let records: Vec<Value> = unchunked(&body)
            .lines()
            .map(|line| serde_json::from_str(line).expect("a record"))
            .collect();
        assert_eq!(records.len(), site.expected().len());
        assert!(records.iter().all(|record| record["status"] == 200));
    }
    let (head, body) = app.ask("POST", "/crawl", &json!({ "urls": ["not a URL"] }));
    assert!(head.starts_with("HTTP/1.1 400"), "{head}");
    assert!(body.contains("not a URL"), "{body}");
    let (head, body) = app.ask("GET", "/governor", &Value::Null);
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    assert!(body.contains("\"max_concurrency_num\":4"), "{body}");
    assert!(server.stop().peak_in_flight <= 4);
}
