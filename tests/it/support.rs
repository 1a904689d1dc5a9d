//! What the tests share: running the binary, reading what it wrote, serving files with a server not ours.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crawler_node::Settings;
use serde_json::Value;

/// Longest time that any single wait may take.
pub(crate) const DEADLINE: Duration = Duration::from_secs(120);

/// The binary, in a directory without configuration, with a state directory of its own.
pub(crate) fn binary(dir: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_crawler-node"));
    command
        .current_dir(dir)
        .env_clear()
        .env("CRAWLER__STATE", dir.join("state"))
        .stdin(Stdio::null());
    command
}

/// A finished process.
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

pub(crate) fn run(command: &mut Command) -> Ran {
    let output = command.output().expect("the binary starts");
    Ran {
        code: output.status.code(),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// All records below a job's directory.
pub(crate) fn records(dir: &Path) -> Vec<Value> {
    sinks(dir)
        .values()
        .flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>())
        .map(|line| serde_json::from_str(&line).expect("a line is an object"))
        .collect()
}

/// The JSON Lines files of a job's directory, by name.
pub(crate) fn sinks(dir: &Path) -> BTreeMap<String, String> {
    fs::read_dir(dir)
        .expect("the job's directory")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|end| end == "jsonl"))
        .map(|path| {
            let name = path
                .file_name()
                .expect("a name")
                .to_string_lossy()
                .into_owned();
            (name, fs::read_to_string(path).expect("text"))
        })
        .collect()
}

/// Settings for an engine inside a test: short pauses, state in `dir`.
pub(crate) fn settings(dir: &Path, cap: u32) -> Settings {
    Settings {
        max_concurrency_num: cap,
        state: Some(dir.join("state")),
        test_time_scale: 0.05,
        ..Settings::default()
    }
}

/// A server of files that is not ours: nginx where it is installed, else Python's.
pub(crate) struct FileServer {
    child: Child,
    pub(crate) base: String,
    pub(crate) name: &'static str,
    _dir: tempfile::TempDir,
}

impl FileServer {
    pub(crate) fn start(root: &Path) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let port = free_port();
        let (name, child) = match nginx(root, dir.path(), port) {
            Some(child) => ("nginx", child),
            None => ("python3 -m http.server", python(root, port)),
        };
        let server = Self {
            child,
            base: format!("http://127.0.0.1:{port}"),
            name,
            _dir: dir,
        };
        let started = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(started.elapsed() < DEADLINE, "{name} does not listen");
            std::thread::yield_now();
        }
        server
    }
}

impl Drop for FileServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0")
        .and_then(|listener| listener.local_addr())
        .expect("a free port")
        .port()
}

fn nginx(root: &Path, dir: &Path, port: u16) -> Option<Child> {
    let program = ["/usr/sbin/nginx", "/usr/bin/nginx"]
        .into_iter()
        .find(|path| Path::new(path).exists())?;
    // Workers that give up root could not read a toolchain in its home.
    let user = if nix::unistd::geteuid().is_root() {
        "user root;"
    } else {
        ""
    };
    let config = format!(
        "{user} daemon off; worker_processes 1; pid {dir}/nginx.pid; error_log {dir}/error.log;\n\
         events {{ worker_connections 512; }}\n\
         http {{ access_log off; include /etc/nginx/mime.types;\n\
           client_body_temp_path {dir}/body; proxy_temp_path {dir}/proxy; fastcgi_temp_path {dir}/fastcgi;\n\
           uwsgi_temp_path {dir}/uwsgi; scgi_temp_path {dir}/scgi;\n\
           server {{ listen 127.0.0.1:{port}; root {root}; index index.html; }} }}\n",
        dir = dir.display(),
        root = root.display(),
    );
    let file = dir.join("nginx.conf");
    fs::write(&file, config).expect("a configuration");
    Command::new(program)
        .args(["-c".as_ref(), file.as_os_str()])
        .args(["-e".as_ref(), dir.join("start.log").as_os_str()])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .ok()
}

fn python(root: &Path, port: u16) -> Child {
    Command::new("python3")
        .args([
            "-m",
            "http.server",
            "--bind",
            "127.0.0.1",
            &port.to_string(),
        ])
        .current_dir(root)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("python3")
}

/// The HTML that rustup installs, where there is any.
pub(crate) fn rust_html() -> Option<PathBuf> {
    let output = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()))
        .args(["--print", "sysroot"])
        .output()
        .ok()?;
    let html =
        PathBuf::from(String::from_utf8(output.stdout).ok()?.trim()).join("share/doc/rust/html");
    html.join("book/index.html").exists().then_some(html)
}

/// What a child process has written to stderr when it has ended.
pub(crate) fn stderr_of(child: &mut Child) -> String {
    let mut text = String::new();
    if let Some(mut stderr) = child.stderr.take() {
        stderr.read_to_string(&mut text).expect("text");
    }
    text
}
