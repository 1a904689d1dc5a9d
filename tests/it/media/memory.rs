//! The memory that a file needs does not depend on its size.

#![cfg(target_os = "linux")]

use std::io::Write;
use std::net::TcpListener;
use std::process::Stdio;
use std::sync::mpsc;

use super::host::{Host, Reply, read_head};
use super::{detail, media, one_file};

const MIB: u64 = 1024 * 1024;
const SIZE: u64 = 300 * MIB;
/// What the process may grow by while the file arrives.
const MOST: u64 = 16 * MIB;

/// The most memory that a process has had resident, in bytes.
fn peak(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("a process");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB"));
    1024 * kib
        .expect("a size")
        .trim()
        .parse::<u64>()
        .expect("a number")
}

#[test]
fn a_file_of_300_mib_is_saved_in_flat_memory() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    // Only its address is used: the file comes from the thread below.
    let mut host = Host::start(|_, _| Reply::ok("x".into()));
    host.base = format!("http://{}", listener.local_addr().expect("an address"));
    let dir = one_file(&host, "max_bytes = \"1 GiB\"");
    let (tell, told) = mpsc::channel();
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a client");
        read_head(&mut stream).expect("a request");
        let pid: u32 = told.recv().expect("started");
        let before = peak(pid);
        write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {SIZE}\r\n\r\n").expect("written");
        let block = vec![0x5a; MIB as usize];
        for _ in 1..SIZE / MIB {
            stream.write_all(&block).expect("written");
        }
        // All but what lies in the buffers of the sockets has been read by now.
        let after = peak(pid);
        stream.write_all(&block).expect("written");
        (before, after)
    });
    let mut child = detail(dir.path(), "7")
        .stderr(Stdio::null())
        .spawn()
        .expect("the binary starts");
    tell.send(child.id()).expect("heard");
    let (before, after) = server.join().expect("served");
    assert!(child.wait().expect("ended").success());
    assert_eq!(media(dir.path())[0]["bytes"], SIZE);
    let grown = after - before;
    assert!(
        grown < MOST,
        "grew by {grown} bytes, from {before} to {after}"
    );
}
