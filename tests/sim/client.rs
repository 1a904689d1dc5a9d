//! A tiny blocking HTTP/1.1 client that shares no code with the server.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

/// No test waits longer than this for anything.
pub(crate) const DEADLINE: Duration = Duration::from_secs(20);

pub(crate) struct Client {
    stream: BufReader<TcpStream>,
    host: String,
}

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(field, _)| field == name);
        found.map(|(_, value)| value.as_str())
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap()
    }
}

impl Client {
    pub(crate) fn open(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        Self {
            stream: BufReader::new(stream),
            host: address.to_string(),
        }
    }

    pub(crate) fn send(&mut self, text: &str) {
        self.stream.get_mut().write_all(text.as_bytes()).unwrap();
    }

    pub(crate) fn ask(&mut self, method: &str, target: &str) {
        let host = self.host.clone();
        self.send(&format!(
            "{method} {target} HTTP/1.1\r\nHost: {host}\r\n\r\n"
        ));
    }

    pub(crate) fn get(&mut self, target: &str) -> Answer {
        self.ask("GET", target);
        self.answer().unwrap()
    }

    /// Reads one answer with a body of its stated length.
    pub(crate) fn answer(&mut self) -> io::Result<Answer> {
        let mut answer = self.head()?;
        let length = answer.header("content-length").unwrap().parse().unwrap();
        answer.body = vec![0; length];
        self.stream.read_exact(&mut answer.body)?;
        Ok(answer)
    }

    pub(crate) fn head(&mut self) -> io::Result<Answer> {
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            if self.stream.read_line(&mut line)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            match line.trim_end() {
                "" => break,
                line => lines.push(line.to_owned()),
            }
        }
        let headers = lines[1..].iter().map(|line| {
            let (name, value) = line.split_once(": ").unwrap();
            (name.to_ascii_lowercase(), value.to_owned())
        });
        Ok(Answer {
            status: lines[0].split(' ').nth(1).unwrap().parse().unwrap(),
            headers: headers.collect(),
            body: Vec::new(),
        })
    }

    /// Everything up to the end of the stream.
    pub(crate) fn rest(&mut self) -> io::Result<Vec<u8>> {
        let mut rest = Vec::new();
        self.stream.read_to_end(&mut rest).map(|_| rest)
    }

    pub(crate) fn close(self) {
        self.stream.get_ref().shutdown(Shutdown::Both).unwrap();
    }
}
